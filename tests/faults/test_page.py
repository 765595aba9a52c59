"""The page of faults keeps the rows of other days."""

from datetime import date
from pathlib import Path

from tests.faults.kit.page import PAGE, with_outcomes
from tests.faults.kit.rows import Outcome, Row, topics


def good(folder: Path) -> Outcome:
    return Outcome(told="it went on", survived=True)


def test_a_row_that_is_run_again_takes_its_own_place() -> None:
    rows = [Row(fault=name, expected="goes | on", inject=good) for name in ("one", "two")]
    page = "before\n<!-- faults -->\n<!-- end -->\nafter\n"
    outcomes = {row.fault: (row, row.outcome()) for row in rows}
    first = with_outcomes(page, {"topic": rows}, outcomes, date(2030, 1, 1))
    bad = {"one": (rows[0], Outcome(told="gone", survived=False, lost=2))}
    second = with_outcomes(first, {"topic": rows}, bad, date(2030, 1, 2))
    assert second.splitlines()[:6] == [
        *page.splitlines()[:2],
        "## Topic",
        "",
        "| fault | expected | outcome | lost | left | run on |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    assert second.splitlines()[6:8] == [
        "| one | goes \\| on | **failed**: gone | 2 | 0 | 2030-01-02 |",
        "| two | goes \\| on | it went on | 0 | 0 | 2030-01-01 |",
    ]
    assert second.endswith("\n\n<!-- end -->\nafter\n")


def test_a_row_that_was_never_run_says_so_until_it_is() -> None:
    rows = [Row(fault=name, expected="a | b", inject=good) for name in ("one | 1", "two")]
    page = with_outcomes("<!-- faults -->\n<!-- end -->\n", {"t": rows}, {}, date(2030, 1, 1))
    assert "| one \\| 1 | a \\| b | not run yet |  |  |  |" in page
    assert with_outcomes(page, {"t": rows}, {}, date(2030, 1, 2)) == page
    outcomes = {row.fault: (row, row.outcome()) for row in rows[:1]}
    run = with_outcomes(page, {"t": rows}, outcomes, date(2030, 1, 3))
    assert "| one \\| 1 | a \\| b | it went on | 0 | 0 | 2030-01-03 |" in run
    assert "| two | a \\| b | not run yet |" in run
    assert with_outcomes(run, {"t": rows}, {}, date(2030, 1, 4)) == run


def test_a_row_that_is_no_more_leaves_the_page() -> None:
    rows = [Row(fault=name, expected="", inject=good) for name in ("one", "two")]
    page = "<!-- faults -->\n<!-- end -->\n"
    outcomes = {row.fault: (row, row.outcome()) for row in rows}
    full = with_outcomes(page, {"topic": rows}, outcomes, date(2030, 1, 1))
    assert "| two |" in full
    assert "| two |" not in with_outcomes(full, {"topic": rows[:1]}, {}, date(2030, 1, 2))


def test_an_exception_is_an_outcome() -> None:
    def bad(folder: Path) -> Outcome:
        raise RuntimeError("no")

    outcome = Row(fault="", expected="", inject=bad).outcome()
    assert (outcome.told, outcome.is_good) == ("RuntimeError: no", False)


def test_the_page_has_no_failed_row_and_none_that_is_gone() -> None:
    page = PAGE.read_text()
    assert with_outcomes(page, topics(), {}, date(2030, 1, 1)) == page
    assert "**failed**" not in page
