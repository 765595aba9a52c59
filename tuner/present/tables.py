"""The tables of an answer, once for every medium: trials, why, the front, knobs; `trials.csv`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from tuner.decide.regions import Level, main_effects
from tuner.files import written_atomically
from tuner.json_text import json_of
from tuner.plan.knobs import KNOBS
from tuner.plan.objectives import Objective
from tuner.present.configurations import grid_of
from tuner.present.wording import (
    baseline_name,
    confidence,
    epsilon,
    fast,
    faster_or_slower,
    interval_cell,
)
from tuner.study.answer import StudyAnswer
from tuner.study.front import FrontPoint, Goal
from tuner.study.log import BASELINE
from tuner.study.metrics import metric_cells
from tuner.study.rows import TrialRow
from tuner.text import (
    MOST_RATIO,
    UNTOLD,
    in_times,
    interval_text,
    plural,
    three_digits,
    whole_percent,
)

CSV_FORMAT = 2
_TIMES = {1: "once", 2: "twice"}
"""In how many blocks something was seen that too few blocks tell an interval of."""
# The levels of a grid are told exactly; where they cannot be told apart, the interval is endless.
_RIDGE = 1e-6


def write_trials_csv(trials: pd.DataFrame, path: Path) -> None:
    """Write `trials.csv` from `StudyAnswer.trials`, with its version; configurations are JSON."""
    frame = trials.copy()
    frame["config"] = [json_of(config.to_json()).decode() for config in frame["config"]]
    frame.insert(0, "format", CSV_FORMAT)
    with written_atomically(path) as partial:
        frame.to_csv(partial, index=False)


class Column(NamedTuple):
    """A column of all trials."""

    heading: str
    """In full."""
    short: str | None
    """The heading for a terminal, which has no room for a column without one."""
    cells: list[str]
    of: Literal["knob", "number", "count", "metric"] = "number"


class TrialLine(NamedTuple):
    """One trial as a line of text cells."""

    row: TrialRow
    cells: Sequence[str]
    is_best: bool
    outcome: str
    why_open: str
    """Why it is not known whether it is behind; empty where it is."""

    @property
    def outcome_told(self) -> str:
        """The outcome, with why that is open."""
        return f"{self.outcome}: {self.why_open}" if self.why_open else self.outcome


class TrialsTable(NamedTuple):
    """All trials, the fastest first: a column per dimension that any names, then the numbers."""

    columns: list[Column]
    lines: list[TrialLine]


def trials_of(answer: StudyAnswer) -> TrialsTable:
    """The table of all trials."""
    columns = [*_knob_columns(answer.rows), *_number_columns(answer)]
    cells = zip(*(column.cells for column in columns), strict=True)
    lines = [
        TrialLine(row, texts, row.trial == answer.best_trial, *_outcome(answer, row))
        for row, texts in zip(answer.rows, cells, strict=True)
    ]
    return TrialsTable(columns, lines)


def numbers_first(table: TrialsTable) -> TrialsTable:
    """The table as a page has it: what a phone shows of it begins with the objective."""
    first = [
        place for place, each in enumerate(table.columns) if each.of == "number" and each.short
    ]
    places = [*first, *(place for place in range(len(table.columns)) if place not in first)]
    lines = [each._replace(cells=[each.cells[place] for place in places]) for each in table.lines]
    return TrialsTable([table.columns[place] for place in places], lines)


def _knob_columns(rows: Sequence[TrialRow]) -> Iterator[Column]:
    values = [row.config.values for row in rows]
    for dimension in dict.fromkeys(each for known in values for each in known):
        form = KNOBS[dimension.knob].format
        cells = [form(known[dimension]) if dimension in known else "-" for known in values]
        yield Column(str(dimension), str(dimension), cells, "knob")


def _number_columns(answer: StudyAnswer) -> Iterator[Column]:
    """The objective, its interval, the worlds, and the metrics that tables show."""
    objective, rows, sure = answer.objective, answer.rows, confidence(answer)
    values = [three_digits(row.value) for row in rows]
    yield Column(objective.short_heading, objective.table_heading, values)
    yield Column(f"{sure} interval", None, [interval_text(row.ci_low, row.ci_high) for row in rows])
    if any(row.against_baseline for row in rows):
        heading = f"times as {fast(answer)} ({sure})"
        yield Column(heading, heading, [_against(answer, row) for row in rows])
    if any(row.forecast for row in rows):
        yield Column("forecast", "forecast", [_forecast(row) for row in rows], "count")
    yield Column("worlds", "worlds", [str(row.samples) for row in rows], "count")
    for cell in metric_cells():
        texts = [cell.text(row.metrics) for row in rows]
        # A program has no steps, for example.
        if cell.table_heading is not None and any(texts):
            yield Column(cell.heading, cell.table_heading, texts, "metric")


def _forecast(row: TrialRow) -> str:
    """How many times as fast as the baseline it was expected to be."""
    if row.forecast is None:
        return ""
    found = row.forecast.speedup
    return interval_cell(found) if found else "a deadlock"


def _against(answer: StudyAnswer, row: TrialRow) -> str:
    if row.against_baseline is None:
        return ""
    ratio, blocks = row.against_baseline
    if _is_far_off(row):
        return f"much {faster_or_slower(answer)[ratio.estimate < 1]}, {_TIMES[blocks]}"
    cell = interval_cell(ratio)
    return "" if cell == "?" else cell


def _is_far_off(row: TrialRow) -> bool:
    """Whether a row is so far from the baseline that the few blocks it has are worth a word."""
    if row.against_baseline is None or row.against_baseline.blocks not in _TIMES:
        return False
    ratio = row.against_baseline.ratio
    return not ratio.is_told and not 1 / MOST_RATIO <= ratio.estimate <= MOST_RATIO


def ratio_note(answer: StudyAnswer) -> str | None:
    """What the ratios of the table are; None where there are none."""
    cells = {_against(answer, row) for row in answer.rows}
    if cells == {""}:
        return None
    said = (
        f"Times as {fast(answer)}: as {baseline_name(answer)}, with the {confidence(answer)} "
        "interval, from the blocks that measured both."
    )
    if "" in cells:
        said += f" Blank: {UNTOLD}, or not compared."
    if any(cell.startswith("about ") for cell in cells):
        said += " about: without an interval, as it was not compared with all others at once."
    if far_off := [row for row in answer.rows if _is_far_off(row)]:
        rows = [*far_off, answer.by_trial[BASELINE]]
        seen = "; ".join(f"{row.label} {_seen(answer, row)}" for row in rows)
        said += f" Too few blocks for an interval, but seen: {seen} (the baseline)."
    return said


def _seen(answer: StudyAnswer, row: TrialRow) -> str:
    """`had 1660 ms (steps 1650 to 1670)`: what its worlds alone show, and no claim."""
    value = f"had {three_digits(row.value)} {answer.objective.unit}".rstrip()
    steps = answer.details[row.trial].step_ms if row.trial in answer.details else None
    if steps is None or answer.objective.name != "step_ms":
        return value
    return f"{value} (steps {three_digits(steps.p5)} to {three_digits(steps.p95)})"


def _outcome(answer: StudyAnswer, row: TrialRow) -> tuple[str, str]:
    """One word for a row, and why it is open, if it is."""
    if row.broken and not row.does_less:
        return "infeasible", ""
    if row.failure is not None:
        return row.outcome, ""
    if row.trial == BASELINE:
        return "baseline", ""
    if row.trial == answer.best_trial:
        return "cheaper" if answer.verdict == "tie" else "best", ""
    if not row.samples:
        return "open", "in no block"
    if answer.interrupted:
        return "open", "no verdict yet"
    if row.tied_with_best:
        return "open", "near the best"
    return ("open", "too few blocks") if row.trial in answer.not_excluded else ("behind", "")


_OUTCOMES = (
    "Open: it may be as good as the best, or better. Behind: it is not. Near the best: within "
    "epsilon of it, as far as measured. Cheaper: as good as the baseline, and recommended. "
    "Infeasible: it breaks a limit."
)


def outcomes_note(answer: StudyAnswer) -> str:
    """What the words of the outcomes mean."""
    less = " Fails-more: more of its calls fail than the baseline's, or it makes fewer."
    return f"{_OUTCOMES}{less if any(row.does_less for row in answer.rows) else ''}"


class WordsTable(NamedTuple):
    """A table of words, and what it means."""

    headings: list[str]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


def why_of(answer: StudyAnswer) -> WordsTable | None:
    """What was traced of the baseline, and of the best or else the challenger; None if nothing."""
    if not (rows := answer.why):
        return None
    cells = {
        cell.heading: [cell.text(row.metrics) for row in rows.values()]
        for cell in metric_cells() if cell.traced
    }  # fmt: skip
    facts = [(heading, *texts) for heading, texts in cells.items() if any(texts)]
    facts.append(("limit", *(row.diagnosis or "" for row in rows.values())))
    return WordsTable(["", *(f"{name}: {row.label}" for name, row in rows.items())], facts)


def front_of_answer(answer: StudyAnswer) -> WordsTable | None:
    """The Pareto front with both objectives, beside the baseline; None where there is one."""
    front = answer.front
    if front is None:
        return None
    first, second = front.first, front.second
    headings = ["configuration"]
    for objective in (first, second):
        headings += [objective.heading, f"{confidence(answer)} interval", "against the baseline"]
    marks = {answer.best_trial: " (recommended)", BASELINE: " (baseline)"}
    if answer.best_trial == BASELINE:
        marks = {BASELINE: " (recommended, baseline)"}
    rows = [
        (
            f"{point.config}{marks.get(point.trial, '')}",
            *_goal_cells(first, point, point.first),
            *_goal_cells(second, point, point.second),
        )
        for point in front.points
        if point.in_front
    ]
    said = (
        f"The front of {first.label} and {second.label} has {len(front.trials)} of "
        f"{plural(len(front.points), 'configuration')}. No other one is shown better than these "
        f"in one and at most {epsilon(answer)} worse in the other."
    )
    if front.uncompared:
        said += f" {front.uncompared} more were measured too little."
    if answer.best_trial is not None and answer.best_trial not in front.trials:
        said += f" The recommended {answer.best} is not among them."
    said += (
        f" {first.name} alone decides what is recommended. To let {second.name} decide, name it "
        "first."
    )
    if not answer.baseline_failed:
        said += (
            f" Against the baseline: how many times as good as {answer.baseline}, with the "
            f"{confidence(answer)} interval, which holds for all of them at once. It is from all "
            "blocks that measured both, those for the front included."
        )
        if any("?" in row for row in rows):
            said += f" ?: {UNTOLD}."
    return WordsTable(headings, rows, said)


def _goal_cells(objective: Objective, point: FrontPoint, goal: Goal) -> tuple[str, str, str]:
    """The value, its interval, and how many times as good as the baseline, within blocks."""
    spread = "" if goal.spread is None else interval_text(goal.spread.low, goal.spread.high)
    ratio = "1" if point.trial == BASELINE else ""
    if goal.ratio is not None:
        gain = goal.ratio if objective.maximize else goal.ratio.inverse()
        ratio = interval_cell(gain)
    return three_digits(goal.value), spread, ratio


def changes_of(answer: StudyAnswer) -> WordsTable | None:
    """A row per change of the code, the best first; None where none was forecast."""
    if not (found := answer.changes):
        return None
    rows = [
        (each.sentence, each.site or "", in_times(each.ratio, each.ratio_low, each.ratio_high),
         each.condition)
        for each in found
    ]  # fmt: skip
    of = "the recommended configuration" if answer.best_trial else "the baseline"
    said = f"Forecasts from the trace of {of}. What a change gains, the changed program tells."
    return WordsTable(["change", "at", "times as fast", "condition"], rows, said)


def knobs_of(answer: StudyAnswer) -> WordsTable | None:
    """A row per value of each knob, from ratios within blocks; None for fewer than two knobs."""
    grid = grid_of(answer)
    if len(grid.values) < 2 or len(grid.points) < 3:
        return None
    sure = (1 + answer.plan.measuring.confidence) / 2
    levels = main_effects(grid.points, grid.logs, sure=sure, ridge=_RIDGE)
    effects, shares = dict(zip(grid.values, levels, strict=True)), grid.shares
    rows = [
        (
            str(dimension),
            whole_percent(share),
            KNOBS[dimension.knob].format(grid.values[dimension][level]),
            _level_cell(found),
            str(found.tried),
        )
        for dimension, share in shares.items()
        for level, found in sorted(effects[dimension].items())
    ]
    overlap = ""
    if sum(shares.values()) > 1:
        overlap = " Not all combinations were measured, so the shares overlap."
    note = (
        f"Against the best value: how many times as {fast(answer)} as with the best value of this "
        f"knob, the other knobs being equal. The {confidence(answer)} interval is from a fit in "
        "which knobs multiply. Explains: the share of the differences between the configurations "
        f"that the knob explains alone.{overlap} ?: {UNTOLD}."
    )
    headings = ["knob", "explains", "value", "against the best value", "configurations"]
    return WordsTable(headings, rows, note)


def _level_cell(found: Level) -> str:
    return "1" if found.ratio.estimate == 1 else interval_cell(found.ratio.inverse())
