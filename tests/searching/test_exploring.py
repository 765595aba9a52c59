"""Whole studies on the fake launcher, of a search space that is too large for the budget."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeLauncher
from tests.searching.planted import SPACE, times_the_best
from tests.searching.tuning import Tune, row_of, study
from tuner.api import SearchInterrupted
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.knob_sentences import tried_sentences
from tuner.world.measurement import FailureKind

pytestmark = pytest.mark.slow

BASELINE = {
    "caller.num_worker_threads": 16,
    "server.num_worker_threads": 16,
    "transports": "shm",
    "channels": "cma",
    "intra_op_threads": 1,
}
ASKED = {"space": SPACE, "baseline": BASELINE, "budget": "2m"}


def deadlocks(config: Config, world: int) -> FailureKind | None:
    return "deadlocked" if times_the_best(config) is None else None


def planted(sigma: float = 0.05, seed: int = 0, **changes: Any) -> FakeLauncher:
    """Worlds of the planted space: 0.2 s and the measured time, 8 s for a deadlock."""
    return FakeLauncher(
        step_ms=lambda config: 2.0 * (times_the_best(config) or 1.0),
        fails=deadlocks, failing_s=lambda config: 8.0, sigma=sigma, seed=seed, **changes,
    )  # fmt: skip


def test_a_thousand_configurations_in_two_minutes_get_an_answer(tune: Tune, tmp_path: Path) -> None:
    result = tune(planted(), **ASKED)
    assert result.verdict == "better"
    assert result.best is not None
    assert (times_the_best(result.best) or 9.0) <= 1.12
    assert result.speedup is not None
    assert result.speedup.low > 1.15
    assert result.elapsed_s <= 130.0
    tried = len(result.rows)
    assert 25 <= tried <= 100
    first, *lessons = tried_sentences(result)
    assert first == (
        f"{tried} of 1,000 configurations were tried, as proposed by Optuna's TPE, and the best 7 "
        f"were compared; nothing is claimed about the other {1000 - tried}."
    )
    assert any(line.startswith("server.num_worker_threads=1: all") for line in lessons)
    assert sum(row.outcome == "deadlocked" for row in result.rows) <= 4
    document = result.to_json()["sampling"]
    assert (document["configurations"], document["tried"]) == (1000, tried)
    # No trial for what was never tried.
    assert len(study(tmp_path).trials) == tried


def test_no_configuration_is_tried_twice(tune: Tune) -> None:
    launcher = planted()
    result = tune(launcher, **ASKED)
    first = Counter(str(order.config) for order in launcher.orders if order.steps is None)
    assert set(first.values()) == {1}
    assert len(first) == len(result.rows)


@pytest.mark.parametrize("max_blocks", [6, 60])
def test_what_does_not_go_on_stays_out(tune: Tune, max_blocks: int) -> None:
    """However few blocks the race has: of 6 blocks, it has 3, too few to tell rivals apart."""
    result = tune(planted(sigma=0.15), **{**ASKED, "budget": "10m"}, max_blocks=max_blocks)
    assert result.sampling is not None
    went_on = result.sampling.went_on
    assert went_on is not None
    raced = {seen.trial for seen in result.observations if seen.phase == "race"}
    assert raced <= {*went_on}
    others = [row for row in result.rows if row.trial not in went_on and row.failure is None]
    assert others
    assert {row.outcome for row in others} == {"eliminated"}
    assert all(" behind the best of what was tried" in str(row.eliminated) for row in others)


def test_the_grid_can_be_insisted_on(tune: Tune) -> None:
    with pytest.raises(UsageError, match="too short for one block of 1,000 configurations"):
        tune(planted(), **ASKED, sampler="grid")


def test_a_budget_for_nothing_is_refused(tune: Tune) -> None:
    with pytest.raises(UsageError, match="too short for 3 rounds of 4 configurations"):
        tune(planted(), **{**ASKED, "budget": "8s"}, sampler="tpe")
    with pytest.raises(UsageError, match=r"unknown sampler 'tpee'; did you mean tpe\?"):
        tune(planted(), **ASKED, sampler="tpee")


@pytest.mark.parametrize("after", [3, 17, 110])
def test_an_interrupted_exploration_goes_on(tune: Tune, after: int) -> None:
    with pytest.raises(SearchInterrupted) as stopped:
        tune(planted(interrupt_after=after), **ASKED)
    before = stopped.value.result
    assert before.sampling is not None
    result = tune(planted(seed=1), **ASKED, resume=True)
    assert result.verdict is not None
    assert len(result.rows) >= len(before.rows)
    assert (times_the_best(result.best or result.baseline) or 9.0) <= 1.5
    for row in before.rows:
        assert row_of(result, row.config).samples >= row.samples


def test_limits_hold_for_what_is_proposed(tune: Tune) -> None:
    def cpus(config: Config) -> float:
        return 9.0 if "server.num_worker_threads=8" in str(config) else 3.0

    result = tune(planted(cpu_cores=cpus), **ASKED, require=["cpu_cores<=5"])
    assert result.best is not None
    assert "server.num_worker_threads=8" not in str(result.best)
    assert any("server.num_worker_threads=8: all" in line for line in tried_sentences(result))


def test_a_traced_objective_is_explored_too(tune: Tune) -> None:
    result = tune(planted(), **ASKED, objective="rpc_cpu_total_ms")
    assert result.sampling is not None
    assert sum(row.samples > 0 for row in result.rows) > 10


@pytest.mark.thorough
def test_a_gaussian_process_explores_too(tune: Tune) -> None:
    result = tune(planted(), **ASKED, sampler="gp")
    assert result.sampling is not None
    assert result.sampling.sampler == "gp"
    assert len(result.rows) > 20
    assert (times_the_best(result.best or result.baseline) or 9.0) <= 1.3
