"""Blocks: in which order and for how long, of worlds that fail, and on a busy machine."""

import itertools
from typing import Any

import pytest

import tuner
from testing.fakes import FakeLauncher, threads_of
from testing.known import known
from testing.specs import threads
from tests.searching.tuning import Tune, by_threads, failing, row_of, scaling
from tuner.present.failures_told import failing_sentences
from tuner.searching.measurer import MOST_REPEATED
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, FailureKind, Measurement


def test_blocks_have_a_random_order_which_a_seed_repeats(tune: Tune) -> None:
    orders = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        # Each in a folder of its own: studies beside it would decide what comes first.
        result = tune(step_ms=scaling, out=tune.folder.parent / name / "study", seed=seed)
        orders.append([str(order.config) for order in tune.launcher.orders])
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][0] == "num_worker_threads=16"
    # The baseline twice: it is compared with itself, too.
    assert result.by_trial[0].samples == 2 * result.blocks
    blocks = [tuple(orders[0][start : start + 5]) for start in range(5, 20, 5)]
    assert len(set(blocks)) > 1
    assert all(len(set(block)) == 4 for block in blocks)


def test_a_calibration_fixes_the_number_of_steps(tune: Tune) -> None:
    tune(step_ms=scaling, min_time="0.4s")
    steps = {str(o.config): o.steps for o in tune.launcher.orders if o.steps is not None}
    assert steps["num_worker_threads=2"] == 120  # 1.2 x 0.4 s / 4 ms
    assert steps["num_worker_threads=8"] == 240
    assert sum(order.steps is None for order in tune.launcher.orders) == 5


def test_a_world_may_not_take_much_longer_than_the_baseline(tune: Tune) -> None:
    tune(overhead_s=1.0, budget="90s", deadline="100s")
    orders = tune.launcher.orders
    first, *later = [o.deadline_s for o in orders if threads_of(o.config) == 16]
    assert first == 30  # a world that takes longer leaves no time to compare it
    left_s = [90 + 1.05 + 2 - 1.2 * number for number, _ in enumerate(orders)]
    assert max(later) == pytest.approx(max(left_s), rel=0.1)
    candidates = sorted(o.deadline_s for o in orders if threads_of(o.config) != 16)
    assert candidates[-1] == pytest.approx(20 * 1.05, rel=0.1)
    assert candidates[len(candidates) // 2] == candidates[-1]


class Uneven(FakeLauncher):
    """Its steps differ more than its worlds do, so long worlds tell most."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        outcome, times = super().run(order), itertools.cycle([1.0, 0.5, 1.5])
        assert isinstance(outcome, Measurement)
        step_s = tuple(step * next(times) for step in outcome.step_s)
        return outcome.model_copy(update={"step_s": step_s})


def test_a_world_that_is_to_last_long_has_time_for_it(tune: Tune) -> None:
    launcher = Uneven(step_ms=lambda config: 100.0, sigma=0.005)
    tune(launcher, min_time="4s", deadline="30s", budget="20m", max_blocks=10, epsilon="0.001%")
    planned = [(0.1 * o.steps, o.deadline_s) for o in launcher.orders if o.steps is not None]
    longest_s, _ = max(planned)
    assert 1.5 * 4 < longest_s < 15
    assert all(deadline_s > 2 * steps_s for steps_s, deadline_s in planned)


@pytest.mark.parametrize("kind", ["timed-out", "deadlocked", "crashed"])
def test_what_crashes_is_run_again_in_its_block_and_what_hangs_is_not(
    tune: Tune, kind: FailureKind
) -> None:
    fails = failing(kind, 8, when=lambda world: world > 0)
    tune(step_ms=scaling, sigma=0.05, fails=fails, max_blocks=2)
    orders = [o for o in tune.launcher.orders if threads_of(o.config) == 8 and o.steps is not None]
    blocks = [order.seed for order in orders]
    assert max(map(blocks.count, blocks)) == (4 if kind == "crashed" else 1)
    # Each world has a folder of its own for what it leaves.
    folders = [order.failure_folder for order in tune.launcher.orders]
    assert len({*folders}) == len(folders)


def test_a_config_that_fails_more_often_gives_way_to_the_next(tune: Tune) -> None:
    times = by_threads({1: 8.0, 2: 6.0, 4: 3.0, 8: 2.0, 16: 5.0})
    fails = failing("crashed", 8, when=lambda world: world >= 3 and world % 4 > 0)
    result = tune(step_ms=times, sigma=0.02, fails=fails, budget="60s", exhaustive=True)
    assert (str(result.best), result.verdict) == ("num_worker_threads=4", "better")
    row = row_of(result, threads(8))
    assert (row.outcome, row.unreliable, row.samples > 0) == ("crashed", True, True)
    assert tune.study.trials[row.trial].user_attrs["worlds_failed"] == row.worlds_failed
    assert any("more often than the others" in each for each in tune.heard.told)
    assert tuner.load_study(tune.folder).rows == result.rows


@pytest.mark.parametrize("first", [0, 3])
def test_one_wrong_answer_bars_a_configuration(tune: Tune, first: int) -> None:
    result = tune(
        step_ms=scaling, sigma=0.02, baseline={"num_worker_threads": 1},
        fails=failing("wrong-answer", 8, when=lambda world: world == first),
        space={"num_worker_threads": [1, 8]},
    )  # fmt: skip
    assert str(result.best) == "num_worker_threads=1"
    row = row_of(result, threads(8))
    assert (row.outcome, row.worlds_failed, row.worlds_run) == ("wrong-answer", 1, first + 1)
    assert not row.is_measured
    assert failing_sentences(result) == []
    assert tune.study.trials[row.trial].state.name == "FAIL"


def test_wrong_answers_of_the_baseline_too_are_not_for_the_options(tune: Tune) -> None:
    fails = failing("wrong-answer", 1, 8, when=lambda world: world == 3)
    result = tune(step_ms=scaling, sigma=0.02, fails=fails, baseline={"num_worker_threads": 1})
    assert result.verdict == "better"
    assert not any(row.failure for row in result.rows)
    assert "whatever its options: wrong-answer: " in failing_sentences(result)[0]


def test_a_baseline_that_fails_more_often_is_not_kept(tune: Tune) -> None:
    fails = failing("crashed", 16, when=lambda world: world % 2 > 0)
    result = tune(sigma=0.02, fails=fails, space={"num_worker_threads": [4, 8]}, budget="60s")
    baseline = result.by_trial[0]
    assert (result.verdict, baseline.failure, baseline.unreliable) == ("better", None, True)
    assert result.challenger_speedup is not None


FIRST = 2  # timed worlds before the first block: the calibrations


def busy(*numbers: int) -> dict[str, Any]:
    """Others use a whole CPU during these timed worlds; too much noise for an early end."""
    return {
        "space": {"num_worker_threads": [2, 4]}, "baseline": {"num_worker_threads": 2},
        "sigma": 0.3, "others_cpus": lambda number: 1.0 * (number in numbers),
    }  # fmt: skip


def test_another_block_takes_the_place_of_a_disturbed_one(tune: Tune) -> None:
    quiet = tune(**busy(), max_blocks=12)
    answer = tune(**busy(FIRST + 6, FIRST + 25), max_blocks=12, overwrite=True)
    assert answer.blocks == quiet.blocks == 12
    machine = known(answer.machine)
    assert (machine.disturbed_worlds, machine.repeated_blocks) == (0, 2)
    assert {seen.block for seen in answer.observations} == {*range(14)} - {2, 8}
    assert len(tune.launcher.orders) == FIRST + 3 * (12 + 2)
    told = "block 2 was disturbed by other programs; another takes its place"
    assert tune.heard.told.count(told) == 1
    again = tuner.load_study(tune.folder)
    assert (again.observations, again.machine) == (answer.observations, answer.machine)


@pytest.mark.parametrize(
    ("numbers", "most_blocks", "least", "most"),
    # All along; it gets busy; no time is left for others.
    [(range(1000), 20, 0, 0), (range(FIRST + 12, 1000), 20, 1, 1 + MOST_REPEATED * 20),
     (range(FIRST, 1000), 3, 0, 0)],
)  # fmt: skip
def test_few_blocks_are_put_aside(
    tune: Tune, numbers: range, most_blocks: int, least: int, most: float
) -> None:
    answer = tune(**busy(*numbers), max_blocks=most_blocks)
    assert answer.blocks > most_blocks / 2
    assert known(answer.machine).is_busy
    assert least <= known(answer.machine).repeated_blocks <= most


@pytest.mark.parametrize(("numbers", "samples"), [((), 0), ((1,), 4)])
def test_a_first_world_that_was_disturbed_eliminates_nothing(
    tune: Tune, numbers: tuple[int, ...], samples: int
) -> None:
    others_cpus = busy(*numbers)["others_cpus"]
    result = tune(step_ms=scaling, sigma=0.05, others_cpus=others_cpus, budget="60s")
    assert row_of(result, threads(1)).samples == samples


def test_an_exploration_goes_on_behind_one(tune: Tune) -> None:
    grid = {"space": {"num_worker_threads": [*range(1, 16)]}, "sampler": "random"}
    answer = tune(**{**busy(*range(12)), **grid, "baseline": None}, budget="20s")
    machine = known(answer.machine)
    assert (machine.repeated_blocks, machine.disturbed_worlds > 0) == (0, True)
    assert "exploration" in {seen.phase for seen in answer.observations}


def test_a_failure_is_a_fact_however_busy_the_machine_was(tune: Tune) -> None:
    fails = failing("crashed", 4, when=lambda world: world > 0)
    answer = tune(**busy(*range(1000)), fails=fails, max_blocks=6)
    assert [row.outcome for row in answer.rows if row.failure] == ["crashed"]
