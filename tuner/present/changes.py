"""What a person could change in a program, and what that would gain: rows, a table, a few lines."""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath
from textwrap import wrap
from typing import NamedTuple

import pandas as pd

from tuner.present.terminal import Part, line, paragraph
from tuner.present.text_table import Column, rows_left_out
from tuner.text import did_you_mean, in_times, listed, ratio_cell
from tuner.trace.forecast.change import DRIVER, Change
from tuner.trace.forecast.forecasts import Model
from tuner.trace.forecast.ranked import COLUMNS, DRIVER_WORD, ChangeRow, rows_of
from tuner.trace.model.trace import Trace

NO_GAIN = 0.98  # a change of the whole program that takes more of the time gains nothing
MOST_SHOWN = 4
LEAST_SURE = 0.84  # what is sure to gain nothing has no interval that begins lower
LEAST_ROOM = 12  # characters of a sentence's line
MOST_CALLERS = 64
_FUNCTION_KINDS = ("together", "one-call", "faster")
_CALLERS, _GIL, _LOCK = "callers", "gil", "lock"
_OF_FUNCTION = re.compile(r"(together|one-call|faster)(?::(\d+(?:\.\d+)?))?")


def read_change(name: str, value: object) -> Change | str | None:
    """The change that `NAME=VALUE` asks for, or what is wrong with it; None if it is no change."""
    text = str(value).strip()
    if name == _CALLERS:
        is_number = text.isdigit() and 2 <= int(text) <= MOST_CALLERS
        return (Change(kind="callers", number=int(text)) if is_number
                else f"{name} takes a number from 2 to {MOST_CALLERS}, got {text!r}")  # fmt: skip
    if name in (_GIL, _LOCK):
        kind = "gil" if name == _GIL else "no-lock"
        return Change(kind=kind) if text == "no" else f"{name} takes no, got {text!r}"  # type: ignore[arg-type]
    if (name, text) == (DRIVER_WORD, "no-sleep"):
        return Change(kind="no-sleep", function=DRIVER, number=0)
    word = text.partition(":")[0]
    if word not in _FUNCTION_KINDS:
        return None
    asked = _OF_FUNCTION.fullmatch(text)
    if asked is None or (asked[2] and word != "faster") or (asked[2] and float(asked[2]) <= 1):
        known = "together, one-call and faster:2 (so many times as fast)"
        return f"{name}: {text!r} is none of {known}"
    function = {"*": "", DRIVER_WORD: DRIVER}.get(name, name)
    return Change(kind=word, function=function, number=float(asked[2] or 2))  # type: ignore[arg-type]


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
    if change.kind == "callers":
        return f"{_CALLERS}={number}"
    if change.kind in ("gil", "no-lock"):
        return f"{_GIL if change.kind == 'gil' else _LOCK}=no"
    times = f":{number}" if change.kind == "faster" else ""
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
    width: int, diagnosed: str = "",
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


def table_of(
    rows: Sequence[ChangeRow], limit: int | None
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
    ]  # fmt: skip


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

    The program that the trace shows is changed and replayed: calls issued together, one call for
    many, a faster function, no lock, no GIL. A forecast is no measurement: the changed program is.

    Args:
        trace: What `read_trace` returns, of a trace that this package recorded.

    Returns:
        One row per change that can be forecast, the best first: `change`, the `function` that it is
        about (`driver`: what the driver does itself; empty: all), `site`, the line to change, where
        that is known, `ratio` (its time over that of the program as it was) with its interval
        `ratio_low`, `ratio_high`, and the `condition` that must hold. It has no rows where there
        is no forecast at all.
    """
    rows = [row.to_json() for row in rows_of(trace, Model.of(trace))]
    found = pd.DataFrame(rows, columns=pd.Index(COLUMNS))
    return found.assign(site=found["site"].fillna("")) if len(found) else found
