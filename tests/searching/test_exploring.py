"""What is proposed where the grid is too large; whole studies of that, and of two objectives."""

import itertools
import math
import random
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from testing.fakes import FakeLauncher, threads_of
from testing.known import known
from tests.searching.planted import SPACE, planted_plan, times_the_best
from tests.searching.tuning import Tune, by_threads, row_of
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.present.knob_sentences import tried_sentences
from tuner.present.tables import front_of_answer
from tuner.searching.exploring import BATCH, Proposer
from tuner.study.answer import StudyAnswer
from tuner.study.records import OptunaSampler
from tuner.study.storage.sampling import Axis, SamplingProcess
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
        # A block that was left open is left out.
        assert row_of(result, row.config).samples >= row.samples - 1


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


def truthfully(proposer: Proposer, count: int) -> list[Config]:
    """So many proposals, each told what it takes."""
    found = proposer.propose(count)
    teach(proposer, found)
    return found


def teach(proposer: Proposer, configs: Sequence[Config]) -> None:
    for config in configs:
        times = times_the_best(config)
        proposer.learn(config, None if times is None else math.log(times))


def has(config: Config, text: str) -> bool:
    return text in str(config).split()


class RandomSearch:
    """Every configuration once, in a random order."""

    def __init__(self, plan: StudyPlan) -> None:
        configs = [config for config in plan.candidates() if config != plan.baseline]
        random.Random(plan.measuring.seed).shuffle(configs)
        self._left: Iterator[Config] = iter(configs)

    def propose(self, count: int) -> list[Config]:
        return list(itertools.islice(self._left, count))

    def learn(self, config: Config, log_value: float | None) -> None:
        """Learn nothing."""


def worlds_until_near(proposer: Proposer | RandomSearch, seed: int, sigma: float, most: int) -> int:
    """The worlds until the one that looks best is within 5 % of the best; `most` if more.

    A round measures what is proposed, and again the two that look best so far.
    """
    noise, worlds, seen = random.Random(seed + 999), 0, dict[Config, list[float]]()
    while worlds < most:
        best = sorted(seen, key=lambda config: fmean(seen[config]))[:2]
        for config in [*proposer.propose(BATCH), *best]:
            worlds += 1
            times = times_the_best(config)
            if times is None:
                proposer.learn(config, None)
                continue
            seen.setdefault(config, []).append(math.log(times) + noise.gauss(0, sigma))
            proposer.learn(config, fmean(seen[config]))
        if seen:
            leader = min(seen, key=lambda config: fmean(seen[config]))
            if (times_the_best(leader) or math.inf) <= 1.05:
                return worlds
    return most


@pytest.mark.slow
def test_a_quarter_of_the_worlds_of_random_search_finds_the_best() -> None:
    plans = [*enumerate(map(planted_plan, range(20)))]
    at_random = [worlds_until_near(RandomSearch(plan), n, 0.07, 500) for n, plan in plans]
    tpe = [worlds_until_near(Proposer(plan, "tpe"), n, 0.07, 500) for n, plan in plans]
    random_search = statistics.median(at_random)
    assert statistics.median(tpe) <= random_search / 4
    # Nor does what it leaves alone hide the best from it.
    assert max(tpe) < random_search


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_nothing_is_proposed_twice_in_this_session_or_the_next(sampler: OptunaSampler) -> None:
    proposer, resumed = (Proposer(planted_plan(0), sampler) for _ in range(2))
    found = [config for _ in range(15) for config in truthfully(proposer, 8)]
    assert len(set(found)) == len(found) > 60
    teach(resumed, found)
    assert not {*resumed.propose(40)} & {*found}


def test_a_small_space_is_proposed_to_its_end() -> None:
    proposer = Proposer(planted_plan(0, space={"num_worker_threads": [1, 2, 4]}), "tpe")
    found = proposer.propose(8)
    assert {str(config) for config in found} == {f"num_worker_threads={n}" for n in (1, 2, 4)}
    assert proposer.propose(8) == []


def test_what_is_bad_is_left_alone_and_told() -> None:
    proposer = Proposer(planted_plan(3), "tpe")
    found = [config for _ in range(30) for config in truthfully(proposer, 4)]
    tried = [config for config in found if has(config, "server.num_worker_threads=1")]
    # A fifth of the space deadlocks; two or three tell.
    assert 2 <= len(tried) <= 4
    assert proposer.lessons()[0] == (
        f"server.num_worker_threads=1: all {len(tried)} tried failed. "
        f"{200 - len(tried)} configurations with it not tried"
    )
    for bad in ("mpt_uv", "basic"):
        (said,) = [line for line in proposer.lessons() if line.startswith(f"channels={bad} ")]
        assert re.search(r" dropped: (2\.[5-9]|3)", said)
        assert "times slower than the best value of this knob" in said
        assert sum(has(config, f"channels={bad}") for config in found) < 12
    assert 1.0 in map(times_the_best, found)


@pytest.mark.slow
def test_a_sampler_that_needs_torch_answers_from_a_process_of_its_own() -> None:
    axes = [Axis(5, ordered=True), Axis(3, ordered=False)]
    told = [((a, b), abs(a - 3) + 0.5 * b) for a in range(0, 5, 2) for b in range(3)]
    with SamplingProcess() as apart:
        found = apart.proposals("gp", axes, told, 2, 0)
        assert found == apart.proposals("gp", axes, told, 2, 0)
    assert len(found) == 2
    assert (3, 0) in found
    assert all(0 <= a < 5 and 0 <= b < 3 for a, b in found)
