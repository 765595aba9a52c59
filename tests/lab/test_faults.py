"""The quick half of `make faults`: each row survives, loses nothing and leaves nothing."""

from datetime import date

import pytest

from lab.faults.kit.page import PAGE, with_outcomes
from lab.faults.kit.rows import Row, quick_rows, topics

ROWS = [row for rows in topics().values() for row in rows]


@pytest.mark.parametrize("row", quick_rows(ROWS, starts_worlds=False), ids=lambda row: row.fault)
def test_a_fault_without_worlds_is_survived(row: Row) -> None:
    outcome = row.outcome()
    assert outcome.is_good, f"{outcome}\n{outcome.told}"


@pytest.mark.world
@pytest.mark.parametrize("row", quick_rows(ROWS, starts_worlds=True), ids=lambda row: row.fault)
def test_a_fault_is_survived(row: Row) -> None:
    outcome = row.outcome()
    assert outcome.is_good, f"{outcome}\n{outcome.told}"


def test_the_page_has_no_failed_row_and_none_that_is_gone() -> None:
    page = PAGE.read_text()
    assert with_outcomes(page, topics(), {}, date(2030, 1, 1)) == page
    assert "**failed**" not in page
