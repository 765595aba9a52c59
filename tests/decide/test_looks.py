import pytest

from tuner.decide.looks import Look, due_alpha, is_due


def test_a_look_is_due_when_there_are_many_more_blocks() -> None:
    assert [rows for rows in range(12) if is_due(rows, [])] == [*range(4, 12)]
    assert [rows for rows in range(12) if is_due(rows, [Look(5, 0.01, 1.0, 9.0)])] == [
        *range(7, 12)
    ]


def test_the_looks_of_one_budget_leave_a_part_for_the_next() -> None:
    first = due_alpha(0.05, [], 30.0, 60.0, over=False)
    assert first == pytest.approx(0.8 * 0.05 / 4)
    taken = [Look(10, first, 30.0, 60.0)]
    last = due_alpha(0.05, taken, 60.0, 60.0, over=True)
    assert first + last == pytest.approx(0.8 * 0.05)
    taken.append(Look(20, last, 60.0, 60.0))
    assert due_alpha(0.05, taken, 60.0, 60.0, over=True) == 0
    more = due_alpha(0.05, taken, 120.0, 120.0, over=True)
    assert more == pytest.approx(0.8 * 0.2 * 0.05)


def test_a_budget_that_ends_early_spends_all_that_it_has() -> None:
    assert due_alpha(0.05, [], 1.0, 60.0, over=True) == pytest.approx(0.8 * 0.05)


def test_a_limit_spends_more_of_alpha_early_and_no_more_in_all() -> None:
    early = due_alpha(0.05, [], 10.0, 600.0, over=False, early=True)
    assert early > 100 * due_alpha(0.05, [], 10.0, 600.0, over=False)
    taken = [Look(4, early, 10.0, 600.0)]
    last = due_alpha(0.05, taken, 600.0, 600.0, over=False, early=True)
    assert early + last == pytest.approx(0.8 * 0.05)
