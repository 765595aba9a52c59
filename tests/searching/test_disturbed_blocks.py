"""Blocks that other programs disturbed are put aside, and others take their place."""

import pytest

import tuner
from tests.fakes import FakeLauncher
from tests.searching.tuning import Listening, Tune, scaling
from tuner.plan.config import Config
from tuner.searching.measurer import MOST_REPEATED
from tuner.world.measurement import FailureKind

TWO = {"space": {"num_worker_threads": [2, 4]}, "baseline": {"num_worker_threads": 2}}
FIRST = 2
"""Timed worlds before the first block: the calibrations."""


def busy_in(*numbers: int) -> FakeLauncher:
    """Others use a whole CPU during these timed worlds; too much noise for an early end."""
    return FakeLauncher(sigma=0.3, others_cpus=lambda number: 1.0 * (number in numbers))


def test_another_block_takes_the_place_of_a_disturbed_one(tune: Tune) -> None:
    launcher, listening = busy_in(FIRST + 6, FIRST + 25), Listening()
    answer = tune(launcher, **TWO, max_blocks=12, observer=listening)
    quiet = tune(busy_in(), **TWO, max_blocks=12, overwrite=True)
    assert answer.blocks == quiet.blocks == 12
    assert answer.machine is not None
    assert (answer.machine.disturbed_worlds, answer.machine.repeated_blocks) == (0, 2)
    assert len({seen.block for seen in answer.observations}) == 12
    assert {2, 8}.isdisjoint(seen.block for seen in answer.observations)
    assert len(launcher.orders) == FIRST + 3 * (12 + 2)
    assert listening.told.count(
        "block 2 was disturbed by other programs; another takes its place"
    ) == 1  # fmt: skip


@pytest.mark.parametrize(("busy", "samples"), [((), 0), ((1,), 4)])
def test_a_first_world_that_was_disturbed_eliminates_nothing(
    tune: Tune, busy: tuple[int, ...], samples: int
) -> None:
    launcher = FakeLauncher(
        step_ms=scaling, sigma=0.05, others_cpus=lambda number: 1.0 * (number in busy)
    )
    rows = {row.label: row for row in tune(launcher, budget="60s").rows}
    assert rows["num_worker_threads=1"].samples == samples


def test_on_a_machine_that_is_always_busy_blocks_count(tune: Tune) -> None:
    answer = tune(busy_in(*range(1000)), **TWO, max_blocks=20)
    assert answer.blocks > 10
    assert answer.machine is not None
    assert answer.machine.is_busy
    assert answer.machine.repeated_blocks == 0


def test_one_that_gets_busy_has_few_blocks_put_aside(tune: Tune) -> None:
    answer = tune(busy_in(*range(FIRST + 12, 1000)), **TWO, max_blocks=20)
    assert answer.machine is not None
    assert 1 <= answer.machine.repeated_blocks <= 1 + MOST_REPEATED * 20


def test_a_block_is_kept_where_no_time_is_left_for_others(tune: Tune) -> None:
    answer = tune(busy_in(*range(FIRST, 1000)), **TWO, max_blocks=3)
    assert answer.blocks == 3
    assert answer.machine is not None
    assert (answer.machine.repeated_blocks, answer.machine.disturbed_worlds) == (0, 9)


def test_it_is_put_aside_in_the_study_too(tune: Tune) -> None:
    answer = tune(busy_in(FIRST), **TWO, max_blocks=8)
    again = tuner.load_study(answer.files.root)
    assert again.observations == answer.observations
    assert again.machine == answer.machine
    assert (again.verdict, again.challenger_speedup) == (answer.verdict, answer.challenger_speedup)


def test_a_resumed_search_goes_on_behind_it(tune: Tune) -> None:
    launcher = busy_in(FIRST + 9)
    launcher.interrupt_after = FIRST + 12
    with pytest.raises(tuner.api.SearchInterrupted):
        tune(launcher, **TWO, max_blocks=10)
    answer = tune(busy_in(), **TWO, max_blocks=10, resume=True)
    assert answer.blocks == 10
    assert 3 not in {seen.block for seen in answer.observations}
    assert answer.machine is not None
    assert answer.machine.repeated_blocks == 1


def test_an_exploration_goes_on_behind_one(tune: Tune) -> None:
    grid = {"space": {"num_worker_threads": [*range(1, 16)]}, "sampler": "random"}
    answer = tune(busy_in(*range(12)), **grid, budget="20s")
    assert answer.machine is not None
    assert answer.machine.repeated_blocks == 0
    assert answer.machine.disturbed_worlds > 0
    assert "exploration" in {seen.phase for seen in answer.observations}


def test_a_failure_is_a_fact_however_busy_the_machine_was(tune: Tune) -> None:
    def fails(config: Config, world: int) -> FailureKind | None:
        return "crashed" if config.for_role("server")["num_worker_threads"] == 4 and world else None

    launcher = busy_in(*range(1000))
    launcher.fails = fails
    answer = tune(launcher, **TWO, max_blocks=6)
    assert [row.outcome for row in answer.rows if row.failure] == ["crashed"]
