"""Forecasts from one trace, for people: what can be asked for, and what is said of the answers."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.knobs import NUM_WORKER_THREADS, SWITCH_INTERVAL
from tuner.plan.space import Space, unknown_roles
from tuner.present.changes import Gain, brief, read_change, said_of, unknown_functions
from tuner.present.terminal import Part, line, paragraph
from tuner.present.text_table import Column, text_table
from tuner.roles import role_of
from tuner.study.records import SURE_FORECAST
from tuner.text import listed, plural, ratio_cell, ratio_text
from tuner.trace.analyze.diagnosis import Diagnosis
from tuner.trace.analyze.suggestions import Suggestion
from tuner.trace.forecast.change import GAIN, Change
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.forecast.no_sleep import forecast_with
from tuner.trace.forecast.ranked import LEAST_CALLS, ChangeRow
from tuner.trace.model.trace import Trace

KNOWN = NUM_WORKER_THREADS.name, SWITCH_INTERVAL.name  # the knobs that the model knows
CPUS = "cpus"  # beside the knobs: the logical CPUs of every host
DEFAULT_THREADS = (1, 2, 4, 8, 16, 32)
MOST_THREADS = 16  # of these, more are not forecast unasked where fewer were traced
DISAGREE = "what limits the program and its replay disagree on whether more threads help"
MOST_ASKED = 200  # configurations: each takes some 0.1 s
CHANGES = (
    "FUNCTION=together, =one-call, =ahead, =tensors, =pickle-once, =faster:2, =bytes:2 or "
    "=batch:8, to_here=fetch-once, driver=no-sleep, callers=4, servers=2, gil=no and lock=no"
)
_SPACE_BEFORE_NAME = re.compile(r"[ ,]+(?=[^\s,=]+=)")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A configuration whose forecast a person asks for, and changes of the program."""

    config: Config
    cpus: int | None = None
    changes: Sequence[Change] = ()

    def __str__(self) -> str:
        words = [] if self.cpus is None else [f"{CPUS}={self.cpus}"]
        words += map(said_of, self.changes)
        return " ".join([*([str(self.config)] if self.config.items else []), *words])

    @property
    def beyond(self) -> list[str]:
        """The knobs that the model does not know."""
        return [knob for knob in self.knobs if knob not in KNOWN]

    @property
    def knobs(self) -> list[str]:
        """Those that it names."""
        return [*dict.fromkeys(dimension.knob for dimension, _ in self.config.items)]

    def is_of_more_threads_than(self, number: int) -> bool:
        """Whether nothing but threads changes, and each role that is named gets more of them."""
        values = [value for _, value in self.config.items if isinstance(value, int)]
        is_threads = self.cpus is None and not self.changes and self.knobs == [*KNOWN[:1]]
        return is_threads and bool(values) and min(values) > number

    @property
    def is_of_interval(self) -> bool:
        """Whether nothing but the switch interval changes."""
        return self.cpus is None and not self.changes and self.knobs == [SWITCH_INTERVAL.name]

    @property
    def what_if(self) -> WhatIf:
        """The same for the model."""
        threads, intervals_s = (
            {d.role: number(str(value)) for d, value in self.config.items if d.knob == knob}
            for knob, number in zip(KNOWN, (int, float), strict=True)
        )
        return WhatIf(
            threads=threads, intervals_s=intervals_s, cpus=self.cpus, changes=self.changes
        )

    def to_json(self) -> dict[str, Any]:
        """By role; the CPUs are of all."""
        document: dict[str, dict[str, Any]] = self.config.to_json()
        if self.cpus is not None:
            document.setdefault("*", {})[CPUS] = self.cpus
        return document


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What was asked for, and the answer."""

    asked: Asked
    found: Forecast

    def to_json(self) -> dict[str, Any]:
        """Null for a number that is not known, or infinite as in a deadlock."""
        found = self.found
        ratios = {name: getattr(found, name) for name in ("ratio", "ratio_low", "ratio_high")}
        return {
            "config": self.asked.to_json(),
            "changes": [said_of(each) for each in self.asked.changes],
            **{name: value if math.isfinite(value) else None for name, value in ratios.items()},
            "deadlock": found.deadlock,
            "why_not": found.why_not,
        }

    @property
    def cell(self) -> str:
        """How many times as long it takes."""
        if self.found.deadlock:
            return "a deadlock"
        if self.found.why_not:
            return "no forecast"
        low, high = self.found.ratio_low, self.found.ratio_high
        told = ratio_cell(self.found.ratio, low, high)
        if told == "?" and not low <= 1 <= high:  # the direction is known
            return f"at most {ratio_text(high)}" if high < 1 else f"at least {ratio_text(low)}"
        return told

    @property
    def why(self) -> str:
        """Why that is no number; empty if it is one."""
        if self.found.deadlock:
            return f"the driver waits for {self.found.deadlock}"
        return self.found.why_not


def words_of(flag: str) -> list[str]:
    """The `NAME=VALUE` in one value of `--what-if`."""
    return _SPACE_BEFORE_NAME.split(flag.strip())


def read_flags(flags: Sequence[Sequence[tuple[str, str]]]) -> list[Asked]:
    """What the values of `--what-if` ask for, each its pairs; UsageError with every mistake.

    Knobs are combined, over all flags. A flag with changes of the program is about these alone.
    """
    plain, asked = list[tuple[str, str]](), list[Asked]()
    for entries in flags:
        if any(read_change(*each) is not None for each in entries):
            asked += read_what_if(entries)
        else:
            plain += entries
    return [*(read_what_if(plain) if plain else ()), *asked]


def read_what_if(entries: Sequence[tuple[str, object]]) -> list[Asked]:
    """Every combination of the values of knobs, and of `cpus`, with all changes of the program;
    UsageError with every mistake."""
    changes = [read_change(*each) for each in entries]
    problems = [each for each in changes if isinstance(each, str)]
    others = [each for each, change in zip(entries, changes, strict=True) if change is None]
    of_cpus = [value for key, value in others if key == CPUS]
    space, mistakes = Space.parse([each for each in others if each[0] != CPUS])
    problems += [_or_a_change(mistake) for mistake in mistakes]
    cpus: list[int | None] = []
    for value in of_cpus:
        # They are numbers as those of threads are.
        numbers, mistakes = Space.parse([(NUM_WORKER_THREADS.name, value)])
        problems += [mistake.replace(NUM_WORKER_THREADS.name, CPUS) for mistake in mistakes]
        cpus += [each for _, values in numbers.axes for each in values if isinstance(each, int)]
    if not problems and space.size * max(len(cpus), 1) > MOST_ASKED:
        problems.append(f"more than {plural(MOST_ASKED, 'configuration')} are too many")
    if problems:
        raise UsageError.about("what to forecast", problems)
    known = tuple(each for each in changes if isinstance(each, Change))
    return [
        Asked(config=config, cpus=number, changes=known)
        for config, number in itertools.product(space.grid(), cpus or [None])
    ]


def _or_a_change(mistake: str) -> str:
    """A mistake in a knob; what is none may have been meant as a change."""
    return f"{mistake}; changes are {CHANGES}" if "knob" in mistake else mistake


def ask_by_default(trace: Trace, suggestions: Sequence[Suggestion] = ()) -> list[Asked]:
    """Other numbers of threads, and of the switch interval where the diagnosis suggests others, as
    far as all processes have the same; nothing where they differ."""
    asked = list[Asked]()
    traced = {rank.num_worker_threads for rank in trace.ranks}
    if len(traced) == 1 and None not in traced:
        most = max(MOST_THREADS, *filter(None, traced))
        numbers = [n for n in DEFAULT_THREADS if n <= most and n not in traced]
        asked = read_what_if([(NUM_WORKER_THREADS.name, numbers)])
    intervals_s = {rank.switch_interval_s for rank in trace.ranks}
    for each in suggestions:
        if each.knob == SWITCH_INTERVAL.name and len(intervals_s) == 1:
            others = read_what_if([(each.knob, each.values)])
            asked += [one for one in others if one.config.items[0][1] not in intervals_s]
    return asked


def answer(
    trace: Trace,
    asked: Sequence[Asked],
    roles: Sequence[tuple[str, str]] = (),
    model: Model | str | None = None,
) -> list[Answered]:
    """The forecast of each, by the model of the trace, if that is known; UsageError for a role, or
    a function, that the trace does not have."""
    known = list(dict.fromkeys(role_of(rank.name, roles) for rank in trace.ranks))
    named = [dimension for each in asked for dimension, _ in each.config.items]
    problems = unknown_roles(named, known)
    problems += unknown_functions(trace, [change for each in asked for change in each.changes])
    if problems:
        raise UsageError.about("what to forecast", [*dict.fromkeys(problems)])
    model = model or Model.of(trace, roles)
    found = []
    for each in asked:
        forecast = (
            Forecast(why_not=_beyond(each)) if each.beyond
            else forecast_with(trace, model, each.what_if, roles)
        )  # fmt: skip
        found.append(Answered(asked=each, found=forecast))
    return found


def agreed(
    diagnosis: Diagnosis, answers: Sequence[Answered], trace: Trace
) -> tuple[Diagnosis, list[Answered]]:
    """Both, without what they say of more threads, and of the switch interval, where they
    contradict each other."""
    intervals = [each.found for each in answers if each.asked.is_of_interval]
    if intervals and all(_is_sure(each) and each.ratio >= GAIN for each in intervals):
        diagnosis = diagnosis.without_knob(SWITCH_INTERVAL.name)
    most = max((rank.num_worker_threads or 0 for rank in trace.ranks), default=0)
    more = [each for each in answers if each.asked.is_of_more_threads_than(most)]
    ratios = [each.found.ratio for each in more if _is_sure(each.found) or _gains(each.found)]
    is_gain = any(ratio < GAIN for ratio in ratios)
    contradicts = is_gain if diagnosis.denies_threads else ratios and not is_gain
    if not contradicts or not (diagnosis.denies_threads or diagnosis.wants_threads):
        return diagnosis, [*answers]
    return diagnosis.without_threads(), [
        replace(each, found=Forecast(why_not=DISAGREE)) if each in more else each
        for each in answers
    ]


def _beyond(asked: Asked) -> str:
    knobs = listed(asked.beyond)
    return f"what {knobs} changes is not in the model; rpc-tuner search measures it"


def forecast_parts(
    trace: Trace, answers: Sequence[Answered], changes: Sequence[ChangeRow], width: int, *,
    is_asked: bool, diagnosed: str = "", left_out: int = 0,
) -> Iterator[Part]:  # fmt: skip
    """What was asked for, as a table; else what would make the program faster, in a few lines."""
    if is_asked:
        yield from _table(trace, answers, width)
        return
    intervals = [each for each in answers if each.asked.is_of_interval]
    answers = [each for each in answers if each not in intervals]
    of_intervals = _of_intervals(trace, intervals)
    has_changes = bool(changes or of_intervals or left_out)
    of_threads = _of_threads(trace, answers) if has_changes else None
    if has_changes:
        knobs, no_gain = of_threads or ([], [])
        knobs, busy = [*knobs, *of_intervals], trace.is_of_busy_machine
        yield from brief(
            changes, knobs, no_gain, is_busy=busy, width=width, diagnosed=diagnosed,
            left_out=left_out,
        )  # fmt: skip
    if of_threads is None and (said := in_a_line(trace, answers)):
        yield paragraph(said)


def _table(trace: Trace, answers: Sequence[Answered], width: int) -> Iterator[Part]:
    yield line("")
    if not all(each.found.why_not for each in answers):
        names = Column(
            f"what if ({_forecast(trace)})", [str(each.asked) for each in answers], is_name=True
        )
        cells = Column("times as long", [each.cell for each in answers])
        yield from map(line, text_table([names, cells], width))
    yield from map(paragraph, reasons(answers))
    for condition in dict.fromkeys(each.found.condition for each in answers):
        if condition:
            yield paragraph(f"The changes hold {condition}.")


def in_a_line(trace: Trace, answers: Sequence[Answered]) -> str:
    """What other numbers of threads would do; empty where that is not sure."""
    if not answers or len(trace.calls) < LEAST_CALLS:
        return ""
    doubts = dict.fromkeys(each.found.why_not for each in answers if each.found.may_deadlock)
    told = [each for each in answers if not each.found.may_deadlock]
    in_doubt = [f"{doubt[0].upper()}{doubt[1:]}." for doubt in doubts]
    if not told or not all(_is_sure(each.found) for each in told):
        return " ".join(in_doubt)
    traced = trace.ranks[0].num_worker_threads
    note = f"({_forecast(trace)}; rpc-tuner search measures it)"
    found = {str(each.asked.config.items[0][1]): each.found for each in told}
    stuck = [threads for threads, each in found.items() if each.deadlock]
    ratios = {threads: f"{each.ratio:.1f}" for threads, each in found.items() if not each.deadlock}
    first = stuck or [*ratios]
    instead = f" thread{'s' * (first != ['1'])} instead of {traced}"
    said = [f"with {', '.join(stuck)}{instead} it deadlocks"] if stuck else []
    if ratios:
        is_one = {*ratios.values()} == {"1.0"}
        takes = " it takes as long" if is_one else f": {', '.join(ratios.values())} times as long"
        said.append(f"with {', '.join(ratios)}{'' if stuck else instead}{takes}")
    text = ", ".join(said)
    return " ".join([f"{text[0].upper()}{text[1:]} {note}.", *in_doubt])


def _of_threads(trace: Trace, answers: Sequence[Answered]) -> tuple[list[Gain], list[str]] | None:
    """Of other numbers of threads: the best that surely gains, and that none does; None where a
    line has to tell more of them."""
    if not answers or len(trace.calls) < LEAST_CALLS:
        return [], []
    if any(each.found.deadlock or each.found.may_deadlock for each in answers):
        return None
    if best := _best(answers):
        traced, number = trace.ranks[0].num_worker_threads, best.asked.config.items[0][1]
        return [_gain_of(best, f"{number} instead of {traced} threads (num_worker_threads)")], []
    if not all(_is_sure(each.found) for each in answers):
        return None
    is_none = all(f"{each.found.ratio:.1f}" == "1.0" for each in answers)
    return ([], ["other numbers of threads"]) if is_none else None


def _of_intervals(trace: Trace, answers: Sequence[Answered]) -> list[Gain]:
    """The best of other switch intervals, where it surely gains."""
    best = _best(answers)
    if best is None or len(trace.calls) < LEAST_CALLS:
        return []
    traced = SWITCH_INTERVAL.format(trace.ranks[0].switch_interval_s)
    return [_gain_of(best, f"{best.asked} instead of {traced}")]


def _best(answers: Sequence[Answered]) -> Answered | None:
    """Of those that surely gain."""
    gains = [each for each in answers if _gains(each.found)]
    return min(gains, key=lambda each: each.found.ratio, default=None)


def _gain_of(answered: Answered, sentence: str) -> Gain:
    found = answered.found
    return Gain("", sentence, found.ratio, found.ratio_low, found.ratio_high)


def _forecast(trace: Trace) -> str:
    return f"a forecast{' of a busy machine' * trace.is_of_busy_machine}"


def _gains(found: Forecast) -> bool:
    """Surely, by however much."""
    return found.ratio_high < GAIN


def _is_sure(found: Forecast) -> bool:
    """Of the number, or that it deadlocks."""
    is_told = not found.why_not and found.ratio_high <= SURE_FORECAST * found.ratio_low
    return bool(found.deadlock) or is_told


def reasons(answers: Sequence[Answered]) -> Iterator[str]:
    """Why some answers are no numbers, each reason once with all that it is of."""
    for why in dict.fromkeys(each.why for each in answers if each.why):
        of = [str(each.asked) for each in answers if each.why == why]
        is_all = len(of) == len(answers)
        yield (
            f"No forecast: {why}."
            if is_all and not answers[0].found.deadlock
            else (f"{listed(of)}: {why}.")
        )


def forecast(trace: Trace, space: Mapping[str, object]) -> pd.DataFrame:
    """Forecast from one trace what other configurations would do, without running the program.

    The program that the trace shows is replayed on a model of its threads, locks and CPUs. A
    forecast is no measurement: `tune` measures.

    Args:
        trace: What `read_trace` returns, of a trace that this package recorded.
        space: Values by knob, as in a plan: `{"num_worker_threads": [1, 2, 4]}`, for one role
            `{"agent.num_worker_threads": "2,4"}`; also `{"switch_interval": "1ms"}`, and `{"cpus":
            64}`, the logical CPUs of each host. All combinations are forecast. And changes of the
            program, which all of them have: `{"look_up": "together"}`, or `"one-call"`, `"ahead"`,
            `"tensors"`,
            `"pickle-once"`, `"faster:2"`, `"bytes:2"`, `"batch:8"`; `{"to_here": "fetch-once"}`,
            `{"driver": "no-sleep"}`, `{"callers": 4}`, `{"servers": 2}`, `{"gil": "no"}`,
            `{"lock": "no"}`.

    Returns:
        One row per configuration: `config` (as `--space` would say it), `ratio` (its time over that
        of the traced configuration) with its interval `ratio_low`, `ratio_high`; `deadlock`, the
        chain of calls that wait for each other, then the ratio is infinite; and `why_not`, why
        there is no forecast, then it is NaN. Both are empty otherwise.

    Raises:
        UsageError: the space has mistakes, or names a role, or a function, that the trace does
            not have.
    """
    answers = answer(trace, read_what_if([*space.items()]))
    columns = ("ratio", "ratio_low", "ratio_high", "deadlock", "why_not")
    rows = [[str(each.asked), *(getattr(each.found, name) for name in columns)] for each in answers]
    return pd.DataFrame(rows, columns=pd.Index(["config", *columns]))
