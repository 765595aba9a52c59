"""Programs of bug reports, whose truth stands in their first lines: what a recording of each says.

A forecast is of the true time, or there is none; a hang is foretold, or nothing is forecast. The
same beside a process that computes.
"""

import math
import re
from contextlib import nullcontext

import pytest

from testing.programs import busy_machine
from tests.present.screen import printed
from tests.world.command.recorded import python, recorded
from tuner.present.analysis import Analysis
from tuner.present.trace_summary import Shown, print_trace
from tuner.trace.forecast.forecasts import Forecast, WhatIf, forecasts
from tuner.trace.model.trace import Trace

pytestmark = [pytest.mark.world, pytest.mark.thorough]

HANGS = math.inf
AS_LONG = dict.fromkeys((1, 2, 4, 8, 16, 32), 1.0)
TRUTH: dict[str, dict[int, float]] = {
    "batch_condition": {1: HANGS, 2: HANGS, 4: HANGS, 8: 1.0, 32: 1.0},
    "callback_calls": {1: HANGS, 2: HANGS, 4: HANGS, 8: 1.0, 32: 1.0},
    "callback_work": {1: 2.0, 4: 0.5, 16: 0.16},
    "client_threads": {1: 2.0, 4: 0.5, 8: 0.42, 16: 0.42},
    "condition": {1: HANGS, 2: HANGS},
    "gil_full": {4: 1.0, 8: 1.0, 32: 1.0},
    "one_lock": AS_LONG,
    "script_inside": {1: HANGS},
    "thread_pool": {1: 2.0, 4: 0.54, 8: 0.36, 16: 0.36},
    "two_phases": {1: 2.0, 4: 0.5, 8: 0.27, 16: 0.13},
}
"""How many times as long the program takes with so many threads, by the clock, quiet."""
SAYS = {
    "callback_work": r"callback",
    "gil_full": r"GIL of server|server's GIL",
    "many_tensors": r"pickl",
    "oversubscribed": r"5 ranks with \d+ intra-op threads each compete for",
}
NEVER_SAYS = {
    "callback_work": r"Communication is the limit",
    "gil_full": r"Communication is the limit|though a thread was free",
    "many_tensors": r"Communication is the limit",
    "one_lock": r"(?<!not )more threads help\.",
}
NEAR, NEAR_WHEN_BUSY = 1.25, 1.5
"""The truth of another machine, or of a busy one, may be so many times another."""


def is_right(found: Forecast, truth: float, near: float) -> bool:
    if found.why_not or math.isinf(truth):
        return bool(found.why_not or found.deadlock)
    return found.ratio_low / near <= truth <= found.ratio_high * near


def wrong(trace: Trace, truth: dict[int, float], near: float) -> list[str]:
    """What is forecast otherwise than by the clock."""
    found = forecasts(trace, [WhatIf(threads={"*": threads}) for threads in truth])
    return [
        f"{threads}: {ratio}, and forecast is {each}"
        for (threads, ratio), each in zip(truth.items(), found, strict=True)
        if not is_right(each, ratio, near)
    ]


@pytest.mark.parametrize("hog", [False, True], ids=["quiet", "busy"])
@pytest.mark.parametrize("name", sorted({*TRUTH, *SAYS, *NEVER_SAYS}))
def test_a_recording_says_nothing_false(name: str, hog: bool) -> None:
    with busy_machine() if hog else nullcontext():
        trace = recorded(*python(f"cases/{name}.py")).trace
    assert wrong(trace, TRUTH.get(name, {}), NEAR_WHEN_BUSY if hog else NEAR) == []
    analysis = Analysis.of(trace, forecasts_unasked=True)
    text = " ".join(printed(print_trace, analysis, Shown()).split())
    assert not re.search(NEVER_SAYS.get(name, "^$"), text), text
    assert hog or re.search(SAYS.get(name, ""), text), text
    # The others do not compute with operators.
    suggested = [suggestion.knob for suggestion in analysis.diagnosis.suggestions]
    assert ("intra_op_threads" in suggested[:1]) is (name == "oversubscribed") or hog
    assert "intra_op_threads" not in suggested[1:]
