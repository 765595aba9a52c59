"""The trials as a table: for a terminal, and as CSV."""

import math
from collections.abc import Callable
from pathlib import Path

import orjson
import pandas as pd
from rich import box
from rich.table import Table

from tuner.decide.result import StudyAnswer, TrialRow
from tuner.files import written_atomically
from tuner.plan.knobs import KNOBS
from tuner.plan.settings import Dimension, Settings
from tuner.present.numbers import three_digits

CSV_FORMAT = 1


def write_trials_csv(trials: pd.DataFrame, path: Path) -> None:
    """Write the trials, settings as JSON; the column `format` carries the file's version."""
    frame = trials.copy()
    frame["settings"] = [orjson.dumps(settings).decode() for settings in frame["settings"]]
    frame.insert(0, "format", CSV_FORMAT)
    with written_atomically(path) as partial:
        frame.to_csv(partial, index=False)


def trials_table(result: StudyAnswer) -> Table:
    """The trials sorted by result: a column per tuned knob, the best and the baseline marked.

    `RPC` is the CPU total of the calls per step, `at once` how many a server ran, mean/max; both
    are from the settings' traces.
    """
    rows = [(Settings.from_json(row.settings), row) for row in result.rows]
    dimensions = list(dict.fromkeys(d for settings, _ in rows for d in settings.values))
    confidence = f"{result.plan.measuring.confidence * 100:g} %"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for dimension in dimensions:
        table.add_column(_folded(dimension), justify="right", overflow="fold")
    name = result.objective.name.removesuffix("_ms")
    # Where the screen is narrow the knobs' names are folded, never the numbers.
    for header, min_width in (
        (f"{name}\n({result.objective.unit})", 6),
        (f"{confidence}\ninterval", 9),
        ("worlds", 6),
        ("CPU\ncores", 5),
        ("RPC\n(ms)", 5),
        ("at\nonce", 5),
    ):
        table.add_column(header, justify="right", no_wrap=True, min_width=min_width)
    table.add_column("outcome", min_width=12)
    for settings, row in rows:
        is_best = row.label == str(result.best)
        table.add_row(
            *(_value(settings, dimension) for dimension in dimensions),
            three_digits(row.value),
            ""
            if math.isnan(row.ci_low)
            else f"{three_digits(row.ci_low)}-{three_digits(row.ci_high)}",
            str(row.samples),
            three_digits(row.cpu_cores),
            three_digits(row.rpc_cpu_total_ms),
            _at_once(row),
            _outcome(result, row, is_best),
            style="bold" if is_best else "red" if row.failure is not None else None,
        )
    return table


def why_table(result: StudyAnswer) -> Table | None:
    """What was traced of the baseline and of the winner, side by side; None if nothing was."""
    if not (rows := result.why):
        return None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Why", title_justify="left")
    table.add_column("")
    for role, row in rows.items():
        table.add_column(f"{role}: {row.label}", ratio=1, overflow="fold")
    facts: list[tuple[str, Callable[[TrialRow], str]]] = [
        ("RPC CPU total, ms per step", lambda row: three_digits(row.rpc_cpu_total_ms)),
        ("calls served at once, mean/max", _at_once),
        ("traced / untraced step time", lambda row: three_digits(row.observer_effect)),
        ("limit", lambda row: row.diagnosis or ""),
    ]
    for name, of in facts:
        table.add_row(name, *(of(row) for row in rows.values()))
    return table


def failure_lines(result: StudyAnswer) -> list[str]:
    """One line per settings that failed, with the reason."""
    return [f"{row.label}: {row.outcome}: {row.failure}" for row in result.rows if row.failure]


def _folded(dimension: Dimension) -> str:
    """`num_worker_threads` as two lines: tables are narrow."""
    first, underscore, last = str(dimension).rpartition("_")
    return f"{first}_\n{last}" if underscore else last


def _value(settings: Settings, dimension: Dimension) -> str:
    values = settings.values
    if dimension not in values:
        return "-"
    return KNOBS[dimension.knob].format(values[dimension])


def _at_once(row: TrialRow) -> str:
    """Calls served at once while any was: `3.9/4`."""
    if math.isnan(row.parallelism_mean):
        return ""
    return f"{row.parallelism_mean:.1f}/{row.parallelism_max:.0f}"


def _outcome(result: StudyAnswer, row: TrialRow, is_best: bool) -> str:
    marks = []
    if is_best:
        marks.append("best" if result.verdict in ("better", "tie") else "kept")
    elif row.tied_with_best:
        marks.append("tied")
    if row.outcome != "completed" or not (marks or row.label == str(result.baseline)):
        marks.insert(0, row.outcome)
    if row.label == str(result.baseline):
        marks.append("baseline")
    return ", ".join(marks)
