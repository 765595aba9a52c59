"""The quick half of `make faults`: each row survives, loses nothing and leaves nothing."""

import pytest

from lab.faults.kit.rows import Row, topics

pytestmark = pytest.mark.thorough

ROWS = [
    pytest.param(row, id=row.fault, marks=[pytest.mark.world] if row.starts_worlds else [])
    for rows in topics().values()
    for row in rows
    if row.is_quick
]


@pytest.mark.parametrize("row", ROWS)
def test_a_fault_is_survived(row: Row) -> None:
    outcome = row.outcome()
    assert outcome.is_good, f"{outcome}\n{outcome.told}"
