"""The tables of faults: printed, and kept in docs/faults.md, each row with the date of its run."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lab.faults.kit.rows import Outcome, Row

PAGE = Path(__file__).parents[3] / "docs" / "faults.md"
_HEAD = ("fault", "expected", "outcome", "lost", "left", "run on")
_NOT_RUN = "not run yet"
_TABLE = re.compile(r"(<!-- faults -->\n).*?(<!-- end -->)", re.DOTALL)


def print_outcome(row: Row, outcome: Outcome, seconds: float) -> None:
    """One row as it comes; they take minutes."""
    sign = "survived" if outcome.is_good else "FAILED"
    Console(width=150).print(
        f"{sign} in {seconds:.0f} s: {row.fault}: {outcome.told} "
        f"(lost {outcome.lost}, left {outcome.left})",
        markup=False,
        highlight=False,
    )


def print_table(outcomes: Mapping[str, tuple[Row, Outcome]]) -> None:
    """All that were run."""
    table = Table("fault", "expected", "outcome", "lost", "left")
    for row, outcome in outcomes.values():
        told = outcome.told if outcome.survived else f"FAILED: {outcome.told}"
        table.add_row(row.fault, row.expected, told, str(outcome.lost), str(outcome.left))
    good = sum(outcome.is_good for _, outcome in outcomes.values())
    table.caption = f"{good} of {len(outcomes)} survived, with nothing lost and nothing left."
    Console(width=150).print(table)


def with_outcomes(
    page: str,
    topics: Mapping[str, Sequence[Row]],
    outcomes: Mapping[str, tuple[Row, Outcome]],
    today: date,
) -> str:
    """The page with the rows that were run written again; those of other days stay.

    A row that nobody has run yet says so.

    Args:
        page: Its text.
        topics: All rows there are, in order.
        outcomes: What was run, by fault.
        today: When that was.
    """
    found = _TABLE.search(page)
    known = {} if found is None else {cells[0]: cells for cells in _rows(found[0])}
    lines: list[str] = []
    for topic, rows in topics.items():
        lines += [f"## {topic.capitalize()}", "", _line(_HEAD), _line(["---"] * len(_HEAD))]
        for row in rows:
            cells = known.get(_cell(row.fault), [row.fault, row.expected, _NOT_RUN, "", "", ""])
            if row.fault in outcomes:
                outcome = outcomes[row.fault][1]
                told = outcome.told if outcome.survived else f"**failed**: {outcome.told}"
                counts = [str(outcome.lost), str(outcome.left)]
                cells = [row.fault, row.expected, told, *counts, today.isoformat()]
            lines.append(_line(map(_cell, cells)))
        lines.append("")
    tables = "".join(f"{line}\n" for line in lines)
    return _TABLE.sub(lambda match: f"{match[1]}{tables}{match[2]}", page)


def _rows(table: str) -> Iterable[list[str]]:
    for line in table.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == len(_HEAD) and cells[2] != _NOT_RUN:
            yield cells


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
