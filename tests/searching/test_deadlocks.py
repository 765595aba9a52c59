"""A program that deadlocks, or fails, as it is: what is tried then, and what is recommended."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tuner
from testing.fakes import threads_of
from testing.known import known
from tests.fake_program import COMMAND, OWN, FakeProgramLauncher
from tests.searching.tuning import Tune
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.present.failures_told import why_nothing_ran
from tuner.present.pages import report_html
from tuner.present.wording import verdict_sentence
from tuner.study.answer import StudyAnswer
from tuner.world.launcher import RunAsItIs, WorldOrder
from tuner.world.measurement import Failure, Measurement

FOUR = {role: {**own, "num_worker_threads": 4} for role, own in OWN.items()}
POWERS = {"num_worker_threads": [1, 2, 4, 8, 16, 32]}


DEADLOCK = Failure(
    failure="deadlocked", message="observer1 deadlocked", rank="observer1", world_s=1.5
)


def observers(config: Config) -> int:
    return int(str(config.for_role("observer")["num_worker_threads"]))


def starves(config: Config, run: int) -> bool:
    """Its observers need five threads."""
    return observers(config) < 5


@dataclass
class Starving(FakeProgramLauncher):
    """A program whose runs deadlock, or fail in another way, as `fails` says of its configuration
    and of how many runs that has had."""

    fails: Callable[[Config, int], bool] = starves
    how: Failure = DEADLOCK
    runs: Counter[int] = field(default_factory=Counter)

    def inspect(
        self, draft: PlanDraft, failure_folder: Path | None = None, trace: Path | None = None
    ) -> Iterator[RunAsItIs]:
        spec = self.subject_of(draft)
        outcome = self._outcome(spec.own_config)
        if isinstance(outcome, Failure):
            spec = spec.model_copy(update={"calls": (), "run_s": ()})
        yield RunAsItIs(spec, outcome, outcome.world_s)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        self.orders.append(order)
        if order.trace is not None:
            return Failure(failure="trace-failed", message="a fake has none", world_s=0.1)
        return self._outcome(order.config)

    def _outcome(self, config: Config) -> Measurement | Failure:
        self.runs[observers(config)] += 1
        if not self.fails(config, self.runs[observers(config)]):
            return self._run(config)
        self.clock.advance(self.how.world_s)
        return self.how

    @property
    def tried(self) -> list[int]:
        """The threads of each configuration, in the order of their first runs."""
        return [*dict.fromkeys(observers(order.config) for order in self.orders)]


def searched(tune: Tune, launcher: Starving, **changes: Any) -> StudyAnswer:
    keys = {"space": POWERS, "budget": "60s", "out": tune.folder, "name": "udf", **changes}
    keys["overwrite"] = True
    return tuner.tune(program=COMMAND, launcher=launcher, clock=launcher.clock, **keys)


def test_after_a_deadlock_only_more_threads_are_tried_the_fewest_first(tune: Tune) -> None:
    launcher = Starving(lambda config: 1.0, own=FOUR)
    answer = searched(tune, launcher)
    assert launcher.tried == [8, 16, 32]
    assert verdict_sentence(answer).startswith(
        "The program as it is deadlocks: use 8 threads or more. num_worker_threads="
    )
    assert (answer.verdict, threads_of(tuner.load_study(tune.folder).rows[0].config)) != (None, 4)
    assert observers(Config.from_json(answer.to_json()["best"])) >= 8
    assert answer.to_json()["needs_threads"] == {
        "role": "observer", "own": 4, "threads": 4, "enough": 8, "has_more": True,
    }  # fmt: skip
    recommended = json.loads((tune.folder / "recommended.json").read_text())
    assert observers(Config.from_json(recommended["config"])) >= 8
    assert "The program as it is deadlocks: use 8 threads or more" in report_html(answer, ())


def test_a_budget_for_one_more_world_recommends_what_ran(tune: Tune) -> None:
    launcher = Starving(lambda config: 3.0, own=FOUR)
    answer = searched(tune, launcher, budget="5s")
    assert launcher.tried == [8]
    assert verdict_sentence(answer).startswith("The program as it is deadlocks: use 8 threads or m")
    recommended = json.loads((tune.folder / "recommended.json").read_text())
    assert observers(Config.from_json(recommended["config"])) == 8


def test_a_space_that_has_fewer_threads_alone_is_said_to(tune: Tune) -> None:
    launcher = Starving(lambda config: 1.0, own=FOUR)
    answer = searched(tune, launcher, space={"num_worker_threads": [1, 2]})
    assert (launcher.tried, answer.verdict, answer.best) == ([], None, None)
    said = "the program as it is deadlocks with 4 threads, and the search space has no more"
    assert said in why_nothing_ran(answer)
    assert verdict_sentence(answer) == f"T{said[1:]}."


def test_where_all_deadlock_that_is_said(tune: Tune) -> None:
    launcher = Starving(lambda config: 1.0, own=FOUR, fails=lambda config, run: True)
    answer = searched(tune, launcher, space={"num_worker_threads": [1, 8, 16]})
    assert launcher.tried == [8, 16]
    assert answer.verdict is None
    said = "The program as it is deadlocks, and so does all that was tried, with up to 16 threads."
    assert verdict_sentence(answer) == said


@pytest.mark.parametrize("run", [1, 2, 4])
def test_a_baseline_that_deadlocks_now_and_then_is_not_recommended(tune: Tune, run: int) -> None:
    """On a busy machine its calls may not overlap."""
    launcher = Starving(
        lambda config: 1.0 if observers(config) == 4 else 1.2, own=FOUR,
        fails=lambda config, number: observers(config) == 4 and number == run,
    )  # fmt: skip
    answer = searched(tune, launcher, space={"num_worker_threads": [8, 16]})
    assert verdict_sentence(answer).startswith("The program as it is deadlocks")
    assert ": use 8 threads or more." in verdict_sentence(answer)
    recommended = json.loads((tune.folder / "recommended.json").read_text())
    assert observers(Config.from_json(recommended["config"])) >= 8


def test_threads_of_the_role_that_deadlocks_are_what_more_is_of(tune: Tune) -> None:
    launcher = Starving(lambda config: 1.0, own=FOUR)
    space = {"agent.num_worker_threads": [2, 8], "observer.num_worker_threads": [2, 4, 6, 12]}
    answer = searched(tune, launcher, space=space)
    # An agent with fewer threads may call less at once.
    tried = {(order.config.for_role("agent")["num_worker_threads"], observers(order.config))
             for order in launcher.orders}  # fmt: skip
    assert tried == {(2, 4), (2, 6), (8, 6), (2, 12), (8, 12)}
    said = "The program as it is deadlocks: use 6 threads or more for observer."
    assert verdict_sentence(answer).startswith(said)


def test_a_program_that_crashes_as_it_is_gives_its_place_to_what_runs(tune: Tune) -> None:
    crash = Failure(failure="crashed", message="agent failed first", rank="agent", world_s=0.5)
    launcher = Starving(lambda config: 1.0, own=FOUR, how=crash)
    answer = searched(tune, launcher, space={"num_worker_threads": [2, 8]})
    said = verdict_sentence(answer)
    assert said.startswith("The program as it is crashes: use num_worker_threads=8.")
    assert answer.verdict == "better"


def test_one_world_with_more_threads_is_run_though_the_deadlock_took_the_time(tune: Tune) -> None:
    slow = DEADLOCK.model_copy(update={"world_s": 21.0})
    launcher = Starving(lambda config: 3.0, own=FOUR, how=slow)
    answer = searched(tune, launcher, budget="20s")
    assert launcher.tried == [8]
    assert verdict_sentence(answer).startswith("The program as it is deadlocks: use 8 threads or m")
    assert observers(known(answer.best)) == 8
