"""The forecast from the trace of a real world, beside other real worlds.

Only times of sleeping calls are compared, and loosely: the machine may be busy, and then a call is
late by tens of milliseconds, in the trace as in a measured world. So calls sleep for long.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import order
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import Forecast, WhatIf, forecasts
from tuner.world.launcher import TraceOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement

pytestmark = pytest.mark.world

SERVED = Path(__file__).parents[2] / "programs" / "served_together.py"


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    with LocalLauncher() as running:
        yield running


def by_threads(
    launcher: LocalLauncher, folder: Path, workload: str, numbers: list[int], **options: object
) -> list[Forecast]:
    """What a trace with 16 threads tells of other numbers, the first of three that is not refused:
    on a busy machine one may be."""
    what_if = [WhatIf(threads={"*": each}) for each in numbers]
    for number in range(3):
        path = folder / f"trace{number}.json"
        plain = order(launcher.describe(workload, options), threads=16, steps=2)
        outcome = launcher.run(replace(plain, trace=TraceOrder(path=path, operators=False)))
        assert isinstance(outcome, Measurement), outcome
        found = forecasts(read_trace(path), what_if)
        if not any(each.why_not for each in found):
            break
    return found


def test_sleeping_calls_take_turns_with_fewer_threads(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    workload = f"{SERVED}:Sleeps"
    found = by_threads(launcher, tmp_path, workload, [1, 2, 4, 8, 32], seconds=0.5)
    assert [each.ratio for each in found] == pytest.approx([8, 4, 2, 1, 1], rel=0.3)
    subject, step_s = launcher.describe(workload, {"seconds": 0.5}), {}
    for threads in (2, 16):
        outcome = launcher.run(order(subject, threads=threads, steps=3))
        assert isinstance(outcome, Measurement), outcome
        # A busy machine makes some of them longer, and nothing makes one shorter.
        step_s[threads] = min(outcome.step_s)
    assert step_s[2] >= 0.99 * 4 * 0.5
    assert found[1].ratio == pytest.approx(step_s[2] / step_s[16], rel=0.3)


def test_calls_under_one_lock_gain_nothing(launcher: LocalLauncher, tmp_path: Path) -> None:
    found = by_threads(launcher, tmp_path, f"{SERVED}:OneLock", [1, 2, 4, 8, 32], seconds=0.02)
    assert [each.ratio for each in found] == pytest.approx([1] * 5, rel=0.2)


def test_nested_calls_deadlock_with_too_few_threads(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    found = by_threads(launcher, tmp_path, "nested", [1, 2, 3, 4], calls=2, depth=2)
    assert [math.isinf(each.ratio) for each in found] == [True, True, False, False]
    subject = launcher.describe("nested", {"calls": 2, "depth": 2})
    short = replace(order(subject, threads=1, steps=2), deadline_s=60.0)
    outcome = launcher.run(short)
    assert isinstance(outcome, Failure)
    assert outcome.failure == "deadlocked"
