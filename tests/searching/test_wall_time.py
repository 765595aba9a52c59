"""What a study may take, and what its worlds leave of that."""

import pytest

from testing.fakes import FakeClock
from tuner.searching.wall_time import Budget, kept_for_end_s


@pytest.mark.parametrize(
    ("budget_s", "prepared_s", "kept_s"),
    [
        (60.0, 0.0, 0.0),  # it was ready
        (300.0, 1.0, 0.0),  # it is short beside the budget
        (60.0, 0.5, 2.7),
        (30.0, 0.5, 3.6),
        (60.0, 9.0, 15.0),  # on a busy machine it may not take most of the time
    ],
)
def test_worlds_leave_time_for_the_end_as_far_as_it_would_be_late(
    budget_s: float, prepared_s: float, kept_s: float
) -> None:
    assert kept_for_end_s(budget_s, prepared_s) == pytest.approx(kept_s)


def test_what_is_kept_for_the_end_is_no_worlds_and_is_not_spent() -> None:
    clock = FakeClock()
    budget = Budget(60.0, 10.0, clock(), clock, 5.0)
    clock.advance(40.0)
    assert (budget.spent_s, budget.remaining_s, budget.is_spent) == (50.0, 5.0, False)
    clock.advance(5.0)
    assert budget.is_spent
