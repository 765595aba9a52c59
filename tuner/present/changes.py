"""What a person could change in a program, and what that would gain: rows, a table, a few lines."""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath
from textwrap import wrap
from typing import NamedTuple

import pandas as pd

from tuner.present.terminal import Part, line, paragraph
from tuner.present.text_table import Column, rows_left_out
from tuner.text import did_you_mean, in_times, listed, plural, ratio_cell
from tuner.trace.forecast.by_callers import ByCallers
from tuner.trace.forecast.change import DRIVER, Change, ChangeKind
from tuner.trace.forecast.forecasts import Model
from tuner.trace.forecast.ranked import COLUMNS, DRIVER_WORD, ChangeRow, rows_of
from tuner.trace.model.trace import Trace

NO_GAIN = 0.98  # a change of the whole program that takes more of the time gains nothing
MOST_SHOWN = 4
_FETCH = "to_here"
LEAST_SURE = 0.84  # what is sure to gain nothing has no interval that begins lower
LEAST_ROOM = 12  # characters of a sentence's line
MOST_RANKS = 64  # for one that was traced
MOST_CALLS = 1024  # in a batch
_RANKS: tuple[ChangeKind, ...] = ("callers", "servers")
_GIL, _LOCK = "gil", "lock"
_WHOLE = ("together", "one-call", "ahead", "tensors", "pickle-once", "fetch-once")
_TIMES = ("faster", "bytes")
_FUNCTION_KINDS = (*_WHOLE, *_TIMES, "batch")
_NUMBER = r"(\d+(?:\.\d+)?)"
_OF_FUNCTION = re.compile(rf"({'|'.join(_FUNCTION_KINDS)})(?::{_NUMBER})?(?::{_NUMBER}x)?")
_FUNCTION_CHANGES = (
    f"{', '.join(_WHOLE)}, faster:2 (so many times as fast), bytes:2 (so many times fewer), "
    "batch:8 (calls served as one), batch:8:1.5x (in so many times the time of one)"
)


def read_change(name: str, value: object) -> Change | str | None:
    """The change that `NAME=VALUE` asks for, or what is wrong with it; None if it is no change."""
    text = str(value).strip()
    if name in _RANKS:
        is_number = text.isdecimal() and 2 <= int(text) <= MOST_RANKS
        return (Change(kind=name, number=int(text)) if is_number
                else f"{name} takes a number from 2 to {MOST_RANKS}, got {text!r}")  # fmt: skip
    if name in (_GIL, _LOCK):
        kind = "gil" if name == _GIL else "no-lock"
        return Change(kind=kind) if text == "no" else f"{name} takes no, got {text!r}"  # type: ignore[arg-type]
    if (name, text) == (DRIVER_WORD, "no-sleep"):
        return Change(kind="no-sleep", function=DRIVER, number=0)
    if text.partition(":")[0] not in _FUNCTION_KINDS:
        return None
    asked = _OF_FUNCTION.fullmatch(text)
    if asked is None or not _is_known(*asked.groups()):
        return f"{name}: {text!r} is none of {_FUNCTION_CHANGES}"
    if asked[1] == "batch" and name == "*":
        return "batch is of one function, got '*'"
    function = {"*": "", DRIVER_WORD: DRIVER}.get(name, name)
    if asked[1] == "fetch-once":
        if name != _FETCH:
            return f"{name}: only {_FETCH} takes fetch-once"
        function = ""  # a fetch has no name
    number = float(asked[2] or (0 if asked[1] == "batch" else 2))
    return Change(kind=asked[1], function=function, number=number, times=float(asked[3] or 0))  # type: ignore[arg-type]


def _is_known(kind: str, number: str | None, times: str | None) -> bool:
    """Whether such a change may have these numbers."""
    if kind == "batch":
        is_size = number is not None and number.isdecimal() and 2 <= int(number) <= MOST_CALLS
        return (is_size or number is times is None) and (times is None or float(times) > 0)
    return times is None and (number is None or (kind in _TIMES and float(number) > 1))


def unknown_functions(trace: Trace, changes: Sequence[Change]) -> list[str]:
    """The mistakes in changes of functions that the trace does not have."""
    functions = [*dict.fromkeys(filter(None, trace.calls["function"].astype(str)))]
    known = [*functions, DRIVER_WORD]
    return [
        f"the trace has no calls of {each.function!r}{did_you_mean(each.function, known)}; it has "
        f"{listed(known)}"
        for each in changes if each.function and each.function not in (*functions, DRIVER)
    ]  # fmt: skip


def said_of(change: Change) -> str:
    """The change as `--what-if` takes it."""
    number = f"{change.number:g}"
    if change.kind in _RANKS:
        return f"{change.kind}={number}"
    if change.kind in ("gil", "no-lock"):
        return f"{_GIL if change.kind == 'gil' else _LOCK}=no"
    if change.kind == "fetch-once":
        return f"{_FETCH}={change.kind}"
    times = f":{number}" if change.kind in _TIMES else ""
    if change.kind == "batch" and change.number:
        times = f":{number}" + (f":{change.times:g}x" if change.times else "")
    function = DRIVER_WORD if change.function == DRIVER else change.function or "*"
    return f"{function}={change.kind}{times}"


class Gain(NamedTuple):
    """A line of what would make a program faster."""

    site: str
    sentence: str
    ratio: float
    ratio_low: float
    ratio_high: float
    condition: str = ""  # what must hold for it

    @property
    def times(self) -> str:
        """How many times as fast the program is then."""
        return in_times(self.ratio, self.ratio_low, self.ratio_high)


def brief(
    rows: Sequence[ChangeRow], knobs: Sequence[Gain], no_gain: Sequence[str], *, is_busy: bool,
    width: int, diagnosed: str = "", left_out: int = 0,
) -> Iterator[Part]:  # fmt: skip
    """What would make a program faster, best first, of changes and knobs, and what would not; that
    agrees with what was `diagnosed`."""
    gains = [
        Gain(row.site, row.sentence, row.found.ratio, row.found.ratio_low, row.found.ratio_high,
             row.condition)
        for row in rows if row.is_gain
    ]  # fmt: skip
    for knob in knobs:
        gains.insert(sum(each.ratio < knob.ratio for each in gains), knob)
    gains = gains[:MOST_SHOWN]
    if gains:
        yield line("")
        yield line(f"What would make it faster (forecasts{' of a busy machine' * is_busy}):")
        cells = [each.times for each in gains]
        names = _short({each.site for each in gains})
        sites = max(map(len, names.values()))
        room = width - max(map(len, cells)) - 4 - (sites + 2 if sites else 0)
        sentences = [_fitting(each.sentence, room) for each in gains]
        column = max(len(part) for parts in sentences for part in parts)
        for each, (first, *others), cell in zip(gains, sentences, cells, strict=True):
            site = f"{names[each.site]:<{sites}}  " if sites else ""
            yield line(f"  {site}{first:<{column}}  {cell}")
            yield from (line(f"  {' ' * len(site)}{other}") for other in others)
        needed = dict.fromkeys(each.condition for each in gains if each.condition.startswith("if "))
        if needed:
            yield paragraph(f"Calls can change so only {'; '.join(needed)}.")
    without = [*no_gain, *_without_gain(rows, diagnosed)]
    if without:
        yield paragraph(f"No gain: {', '.join(without)}.")
    if left_out:
        yield paragraph(f"{not_forecast(left_out)}.")


def not_forecast(count: int) -> str:
    """What is said of so many changes that were left out."""
    were = "was" if count == 1 else "were"
    return f"{plural(count, 'more change')} {were} not forecast, for lack of time"


def table_of(
    rows: Sequence[ChangeRow], limit: int | None, left_out: int = 0
) -> tuple[list[str], list[Column], list[str]]:
    """All forecasts of changes, best first: their names, columns, and what must hold for gains."""
    shown = rows[:limit] if limit else rows
    cells = [(row.found.ratio, row.found.ratio_low, row.found.ratio_high) for row in shown]
    held = [f"{row.sentence}: {row.condition}" for row in shown if row.is_gain and row.condition]
    columns = [
        Column("at", [row.site for row in shown]),
        Column("times as long (a forecast)", [ratio_cell(*each) for each in cells]),
    ]
    return [row.sentence for row in shown], columns, [
        *rows_left_out(len(shown), len(rows)), *dict.fromkeys(held),
        *([not_forecast(left_out)] if left_out else []),
    ]  # fmt: skip


def of_callers(rows: Sequence[ByCallers]) -> list[str]:
    """What more callers would do, as a sentence; nothing where that is not known."""
    if len(rows) < 2:
        return []
    first, best = rows[0], next((row for row in rows if row.is_full), rows[-1])
    most = f"{best.limit} can take no more" if best.limit else "they gain little more"
    if best is first:
        return [f"More callers gain nothing: with {first.callers} {most}."]
    reached = f"with {best.callers} {most}" if best.is_full else f"up to {best.callers} all gain"
    so_much = ratio_cell(*best.throughput)
    return [
        f"More callers: {reached}; {so_much} times the calls of {first.callers} in the same time."
    ]


def _short(sites: Collection[str]) -> dict[str, str]:
    """The lines without the folders of their files, where that leaves them apart."""
    names = {site: PurePath(site).name for site in sites}
    return names if len({*names.values()}) == len(names) else {site: site for site in sites}


def _fitting(text: str, most: int) -> list[str]:
    """A sentence in lines: what is in parentheses is left out rather than put on another one."""
    if len(text) > most:
        text = text.partition(" (")[0]
    return wrap(text, max(most, LEAST_ROOM)) or [""]


def _without_gain(rows: Sequence[ChangeRow], diagnosed: str) -> list[str]:
    """Changes of the whole program that are sure not to gain anything."""
    named = {kind for kind, word in (("gil", "GIL"), ("no-lock", "lock")) if word in diagnosed}
    found = [row for row in rows if row.change.kind in {"gil", "no-lock"} - named]
    return [
        row.sentence for row in found
        if row.found.ratio >= NO_GAIN and row.found.ratio_low >= LEAST_SURE
    ]  # fmt: skip


def changes(trace: Trace) -> pd.DataFrame:
    """Forecast from one trace what changes of the program's code would gain.

    The program that the trace shows is changed and replayed: see docs/what-to-change.md for all
    changes. A forecast is no measurement: the changed program is.

    Args:
        trace: What `read_trace` returns, of a trace that this package recorded.

    Returns:
        One row per change that can be forecast, the best first: `change`, the `function` that it is
        about (`driver`: what the driver does itself; empty: all), `site`, the line to change, where
        that is known, `ratio` (its time over that of the program as it was) with its interval
        `ratio_low`, `ratio_high`, and the `condition` that must hold. It has no rows where there
        is no forecast at all.
    """
    found_rows, _ = rows_of(trace, Model.of(trace), most_s=math.inf)
    rows = [row.to_json() for row in found_rows]
    found = pd.DataFrame(rows, columns=pd.Index(COLUMNS))
    return found.assign(site=found["site"].fillna("")) if len(found) else found
