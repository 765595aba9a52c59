"""What a person could change in the program of a trace: rows, of which the best is first."""

import math
import time
from dataclasses import dataclass
from typing import Any

from tuner.text import three_digits
from tuner.trace.forecast.change import DRIVER, GAIN, Change
from tuner.trace.forecast.changes import KINDS
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.forecast.no_sleep import forecast_with, sleeps
from tuner.trace.model.trace import Trace

COLUMNS = ("change", "function", "site", "ratio", "ratio_low", "ratio_high", "condition")
ABOUT = 1.1
BESIDE = ("gil", "servers")
ASLEEP = 5  # percent of the time
LEAST_CALLS = 20  # what fewer do may be chance
DRIVER_WORD = "driver"  # the driver's own code, as `--what-if` and JSON name it
MOST_S = 4.0  # for all changes of a trace; no forecast begins later


@dataclass(frozen=True, kw_only=True)
class ChangeRow:
    """A change, and its forecast."""

    change: Change
    site: str  # the line that it is about; empty where that is not known
    found: Forecast
    most: float = math.nan  # its ratio if the function took no time

    @property
    def is_gain(self) -> bool:
        """Whether its interval is wholly a gain."""
        return self.found.ratio_high < GAIN

    @property
    def condition(self) -> str:
        """What must hold for it, and how much there is to gain."""
        most = f"at most {three_digits(1 / self.most)} times, if it took none"
        said = [self.found.condition, most if 0 < self.most < math.inf else ""]
        return "; ".join(filter(None, said))

    @property
    def sentence(self) -> str:
        """What to do."""
        return KINDS[self.change.kind].say(self.change)

    def to_json(self) -> dict[str, Any]:
        """As in the document of `record` and `analyze`."""
        found = self.found
        ratios = (found.ratio, found.ratio_low, found.ratio_high)
        function = DRIVER_WORD if self.change.function == DRIVER else self.change.function
        values = (self.change.kind, function, self.site or None, *ratios, self.condition)
        return dict(zip(COLUMNS, values, strict=True))


def rows_of(
    trace: Trace, model: Model | str, most_s: float = MOST_S
) -> tuple[list[ChangeRow], int]:
    """Every change of which there is a forecast, best first; for how many there was no time."""
    found, until_s = list[ChangeRow](), time.monotonic() + most_s
    candidates = sleeps(trace)  # of which few calls tell, too
    if not isinstance(model, str) and len(trace.calls) >= LEAST_CALLS:
        # What a driver that sleeps does itself cannot be done faster.
        is_asleep = sum(candidate.number for candidate in candidates) >= ASLEEP
        candidates += [
            candidate for candidate in model.changeable.candidates()
            if not (is_asleep and candidate.function == DRIVER)
        ]  # fmt: skip
    for number, change in enumerate(candidates):
        if time.monotonic() > until_s:
            left_out = len(candidates) - number
            break
        forecast = forecast_with(trace, model, WhatIf(changes=[change]))
        if forecast.why_not:
            continue
        row = ChangeRow(change=change, site=_site(trace, change), found=forecast)
        if change.kind == "faster" and row.is_gain and not isinstance(model, str):
            most = model.most(Change(kind="faster", function=change.function, number=math.inf))
            row = ChangeRow(change=change, site=row.site, found=forecast, most=most)
        found.append(row)
    else:
        left_out = 0
    # Another interpreter, or more processes, come behind a change of the code that gains as much.
    found.sort(key=lambda row: row.found.ratio * (ABOUT if row.change.kind in BESIDE else 1))
    return found, left_out


def _site(trace: Trace, change: Change) -> str:
    """The line that makes the calls; of what happens to a function itself, its own."""
    calls = trace.calls
    is_of_function = change.kind in ("faster", "bytes", "batch", "tensors")
    if change.site or not is_of_function or "defined" not in calls or change.function == DRIVER:
        return change.site
    own = calls.loc[calls["function"] == change.function, "defined"].astype(str)
    return next((site for site in own.unique() if site), "")
