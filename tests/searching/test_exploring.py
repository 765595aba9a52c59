"""Whole studies on the fake launcher: of a space that is too large, and of two objectives."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import FakeLauncher, threads_of
from tests.known import known
from tests.searching.planted import SPACE, times_the_best
from tests.searching.tuning import Tune, by_threads, row_of
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.knob_sentences import tried_sentences
from tuner.present.tables import front_of_answer
from tuner.study.answer import StudyAnswer
from tuner.world.measurement import FailureKind

BASELINE = {
    "caller.num_worker_threads": 16, "server.num_worker_threads": 16, "transports": "shm",
    "channels": "cma", "intra_op_threads": 1,
}  # fmt: skip
ASKED: dict[str, Any] = {"space": SPACE, "baseline": BASELINE, "budget": "2m"}


def deadlocks(config: Config, world: int) -> FailureKind | None:
    return "deadlocked" if times_the_best(config) is None else None


def planted(sigma: float = 0.05, seed: int = 0, **changes: Any) -> FakeLauncher:
    """Worlds of the planted space: 0.2 s and the measured time, 8 s for a deadlock."""
    return FakeLauncher(
        step_ms=lambda config: 2.0 * (times_the_best(config) or 1.0),
        fails=deadlocks, failing_s=lambda config: 8.0, sigma=sigma, seed=seed, **changes,
    )  # fmt: skip


def best_of(result: StudyAnswer) -> float:
    """How many times as long as the best it takes what is recommended."""
    return times_the_best(result.best or result.baseline) or 9.0


@pytest.mark.slow
def test_a_thousand_configurations_in_two_minutes_get_an_answer(tune: Tune) -> None:
    result = tune(planted(), **ASKED)
    assert (result.verdict, result.elapsed_s <= 130.0) == ("better", True)
    assert best_of(result) <= 1.12
    assert known(result.speedup).low > 1.15
    tried = len(result.rows)
    assert 25 <= tried <= 100
    lessons = tried_sentences(result)[1:]
    assert any(line.startswith("server.num_worker_threads=1: all") for line in lessons)
    assert sum(row.outcome == "deadlocked" for row in result.rows) <= 4
    # No trial for what was never tried, and nothing is tried twice.
    assert len(tune.study.trials) == tried
    first_worlds = [order.config for order in tune.launcher.orders if order.steps is None]
    assert Counter(map(str, first_worlds)).most_common(1)[0][1] == 1
    assert len(first_worlds) == tried


@pytest.mark.slow
@pytest.mark.parametrize("max_blocks", [6, 60])
def test_what_does_not_go_on_stays_out(tune: Tune, max_blocks: int) -> None:
    """However few blocks the race has: of 6 blocks, it has 3, too few to tell rivals apart."""
    result = tune(planted(sigma=0.15), **{**ASKED, "budget": "10m"}, max_blocks=max_blocks)
    went_on = known(known(result.sampling).went_on)
    raced = {seen.trial for seen in result.observations if seen.phase == "race"}
    assert raced <= {*went_on}
    others = [row for row in result.rows if row.trial not in went_on and row.failure is None]
    assert {row.outcome for row in others} == {"eliminated"}
    assert all(" behind the best of what was tried" in str(row.eliminated) for row in others)


@pytest.mark.slow
@pytest.mark.parametrize("after", [17, 110])
def test_an_interrupted_exploration_goes_on(tune: Tune, after: int) -> None:
    before = tune.interrupted(planted(interrupt_after=after), **ASKED)
    assert before.sampling is not None
    result = tune(planted(seed=1), **ASKED, resume=True)
    assert result.verdict is not None
    assert len(result.rows) >= len(before.rows)
    assert best_of(result) <= 1.5
    for row in before.rows:
        assert row_of(result, row.config).samples >= row.samples


@pytest.mark.slow
def test_limits_hold_for_what_is_proposed(tune: Tune) -> None:
    def cpus(config: Config) -> float:
        return 9.0 if "server.num_worker_threads=8" in str(config) else 3.0

    result = tune(planted(cpu_cores=cpus), **ASKED, require=["cpu_cores<=5"])
    assert "server.num_worker_threads=8" not in str(known(result.best))
    assert any("server.num_worker_threads=8: all" in line for line in tried_sentences(result))


@pytest.mark.slow
def test_a_traced_objective_is_explored_too(tune: Tune) -> None:
    result = tune(planted(), **ASKED, objective="rpc_cpu_total_ms")
    assert result.sampling is not None
    assert sum(row.samples > 0 for row in result.rows) > 10


@pytest.mark.thorough
def test_a_gaussian_process_explores_too(tune: Tune) -> None:
    result = tune(planted(), **ASKED, sampler="gp")
    assert known(result.sampling).sampler == "gp"
    assert len(result.rows) > 20
    assert best_of(result) <= 1.3


# Two objectives: faster with more threads, for more CPU time; 16 threads are slower, and cost most.
STEP_MS = {1: 8.0, 2: 5.0, 4: 3.0, 8: 2.0, 16: 2.5}
CPU_MS = {1: 4.0, 2: 5.0, 4: 6.0, 8: 9.0, 16: 12.0}
BUSIER: dict[str, Any] = {
    "step_ms": by_threads(STEP_MS), "sigma": 0.02, "budget": "90s",
    "cpu_cores": by_threads({count: CPU_MS[count] / STEP_MS[count] for count in STEP_MS}),
}  # fmt: skip
BOTH = "step_ms,cpu_ms_per_step"


def front_threads(result: StudyAnswer) -> list[int]:
    return [threads_of(point.config) for point in known(result.front).points if point.in_front]


def test_the_front_is_told_and_the_first_objective_decides(tune: Tune) -> None:
    result = tune(**BUSIER, objective=["cpu_ms_per_step", "step_ms"])
    assert str(result.best) == "num_worker_threads=1"
    assert sorted(front_threads(result)) == [1, 2, 4, 8]
    answer = tune(**BUSIER, objective=BOTH, overwrite=True)
    assert front_threads(answer) == [8, 4, 2, 1]
    assert (str(answer.best), answer.verdict) == ("num_worker_threads=8", "better")
    plan = tune.study.user_attrs["plan"]["measuring"]
    assert plan["second_objective_name"] == "cpu_ms_per_step"
    assert tune(**BUSIER, objective=BOTH, resume=True).front == answer.front
    with pytest.raises(UsageError, match="second_objective_name"):
        tune(**BUSIER, resume=True)
    # Its ratios point the same way as in the table of all configurations.
    assert answer.front is not None
    maximized = replace(answer.front, second=replace(answer.front.second, maximize=True))
    for front, second in ((answer.front, 12 / 9), (maximized, 9 / 12)):
        table = known(front_of_answer(replace(answer, front=front)))
        assert {table.headings[3], table.headings[6]} == {"against the baseline"}
        best = known(answer.by_trial[front.trials[0]].against_baseline)
        shown = [float(table.rows[0][column].split()[0]) for column in (3, 6)]
        assert shown == pytest.approx([best.ratio.estimate, second], rel=0.05)


KNOBS = ("transports", "channels")


def test_a_sampler_looks_for_both_ends_of_the_front(tune: Tune) -> None:
    space = {"num_worker_threads": [1, 2, 4, 8], **{each: SPACE[each] for each in KNOBS}}
    baseline = {"num_worker_threads": 8, "transports": "shm", "channels": "cma"}
    result = tune(**BUSIER, space=space, baseline=baseline, objective=BOTH, sampler="tpe")
    assert result.sampling is not None
    assert result.sampling.went_on is not None
    compared = {threads_of(result.by_trial[trial].config) for trial in result.sampling.went_on}
    # The fastest has 8 threads, and takes the most CPU time of these; the cheapest has 1.
    assert {1, 8} <= compared & {*front_threads(result)}
    assert not any("dropped" in lesson for lesson in result.sampling.lessons)
