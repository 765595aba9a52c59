"""What a search would do, told before it is begun."""

import re
from typing import Any

import pytest

from testing.fakes import FakeLauncher
from testing.known import known
from tests.searching.planted import SPACE
from tests.searching.tuning import FOUR, Tune, failing
from tuner.api import dry_run
from tuner.errors import NothingRanError, UsageError
from tuner.present.before_search import dry_run_lines
from tuner.searching.dry_run import DryRun

INTERVAL = {"switch_interval": [0.001]}


def told(launcher: FakeLauncher, **changes: Any) -> DryRun:
    asked = {"space": FOUR, "budget": "60s", **changes}
    return dry_run(workload="udf", launcher=launcher, clock=launcher.clock, **asked)[0]


def test_a_small_grid_and_a_quiet_machine(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tune.folder.parent)
    # A baseline that fails now and then is run again.
    fails = failing("crashed", 16, when=lambda world: world % 3 > 0)
    launcher = FakeLauncher(sigma=0.02, fails=fails)
    found = told(launcher)
    assert (found.configs, found.sampler, found.worlds) == (5, "grid", 4)
    assert len(launcher.orders) == 1 + 3 * 4
    assert 0.2 < found.world_s < 1.0
    assert found.block_s == pytest.approx(5 * found.world_s)
    # Half of the time four rivals and the baseline twice, then two of them; the calibrations and
    # the traces take some.
    per_world = (1 / 6 + 1 / 4) / 2
    assert found.blocks == pytest.approx(0.9 * 60 / found.world_s * per_world, abs=3)
    assert found.least_gain < 0.03
    # Nothing is left behind.
    assert list(tune.folder.parent.iterdir()) == []
    lines = dry_run_lines(found, 0.03)
    assert lines[0] == "5 configurations, the baseline included."
    assert lines[2] == "The whole grid would be measured."
    assert lines[3].endswith("That is less than epsilon, 3 %: enough to decide.")


def test_a_large_grid_on_a_noisy_machine() -> None:
    baseline = {"transports": "shm", "channels": "cma"}
    found = told(FakeLauncher(sigma=0.3, seed=3), space=SPACE, baseline=baseline)
    assert found.sampler == "tpe"
    lines = dry_run_lines(found, 0.03)
    assert lines[2] == "1m is too little for the grid: tpe would propose what to try."
    assert "After calibration, exploration and tracing, 1m leaves time for about" in lines[3]
    assert "more than epsilon, 3 %: a close race takes about" in lines[3]
    assert found.to_json()["configs"] == found.configs


def test_a_budget_without_time_for_a_pair() -> None:
    found = told(FakeLauncher(overhead_s=3.0), budget="5s")
    assert found.blocks < 3
    said = dry_run_lines(found, 0.03)[-1]
    enough = known(re.search("no time for a comparison: give it (.*) or more, or try fewer", said))
    assert told(FakeLauncher(overhead_s=3.0), budget=enough[1]).blocks >= 3


def test_a_budget_that_is_too_little_for_all(tune: Tune) -> None:
    given: dict[str, Any] = {"overhead_s": 2.0, "sigma": 0.1}
    found = told(FakeLauncher(**given), budget="26s")
    assert (found.configs, found.reached) == (5, 2)
    lines = dry_run_lines(found, 0.03)
    assert lines[2] == "26s is too little for all: the baseline and 1 best bet would be measured."
    answer = tune(**given, budget="26s")
    assert len(answer.rows) == found.reached
    assert abs(answer.blocks - found.blocks) <= 1


def test_what_cannot_be_forecast_is_said() -> None:
    with pytest.raises(NothingRanError, match="the baseline does not run: crashed: worker1 failed"):
        told(FakeLauncher(fails=failing("crashed", 16)))
    with pytest.raises(UsageError, match="unknown knob"):
        told(FakeLauncher(), space={"threads": [1]})
    with pytest.raises(UsageError, match="name a workload, a plan or a program"):
        dry_run()


@pytest.mark.parametrize("threads", [[8], [1, 2, 4, 8], [*range(1, 13)]])
def test_a_search_has_the_time_that_was_told(threads: list[int], tune: Tune) -> None:
    asked: dict[str, Any] = {"space": {"num_worker_threads": threads}, "budget": "60s"}
    found = told(FakeLauncher(sigma=0.3), **asked)
    assert found.blocks == pytest.approx(tune(sigma=0.3, **asked).blocks, rel=0.35)
