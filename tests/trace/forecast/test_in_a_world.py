"""The forecast from the trace of a real world.

Only of sleeping calls, and loosely: the machine may be busy, and then a call is late by tens of
milliseconds. So calls sleep for long.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from testing import served_together
from testing.fakes import order
from testing.outcomes import measured
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import WhatIf, forecasts
from tuner.world.launcher import TraceOrder
from tuner.world.local.local_launcher import LocalLauncher


@pytest.mark.world
def test_sleeping_calls_take_turns_with_fewer_threads(tmp_path: Path) -> None:
    """By the first of three traces that is not refused: on a busy machine one may be."""
    path = tmp_path / "trace.json"
    with LocalLauncher() as launcher:
        subject = launcher.describe(f"{served_together.__file__}:Sleeps", {"seconds": 0.5})
        plain = order(subject, threads=16, steps=2)
        for _ in range(3):
            measured(launcher.run(replace(plain, trace=TraceOrder(path=path, operators=False))))
            what_if = [WhatIf(threads={"*": each}) for each in (1, 2, 4, 8, 32)]
            found = forecasts(read_trace(path), what_if)
            if not any(each.why_not for each in found):
                break
    assert [each.ratio for each in found] == pytest.approx([8, 4, 2, 1, 1], rel=0.3)
