"""The quick half of `make faults`: each row survives, loses nothing and leaves nothing."""

import pytest

from lab.faults.kit.rows import Row, quick_rows, topics

pytestmark = pytest.mark.thorough

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
