import pytest

from tuner.decide.alpha_spending import Look, due_look, left_of, planned_looks, taking

ALPHA = 0.05


def looks_up_to(cap: int, taken: tuple[Look, ...] = (), first: int = 1) -> tuple[Look, ...]:
    """The looks of a confirmation that goes to its cap."""
    for pairs in range(first, cap + 1):
        if look := due_look(pairs, cap, taken, ALPHA, over=False):
            taken = taking(taken, look)
    return taken


def test_a_confirmation_may_stop_each_time_the_pairs_have_doubled() -> None:
    assert planned_looks(160) == [10, 20, 40, 80, 160]
    assert planned_looks(40) == [5, 10, 20, 40]
    assert planned_looks(10) == [5, 10]


def test_the_looks_share_alpha_and_early_ones_get_little() -> None:
    looks = looks_up_to(40)
    assert [look.pairs for look in looks] == [5, 10, 20, 40]
    assert [look.alpha for look in looks] == pytest.approx(
        [ALPHA / 64, ALPHA * 3 / 64, ALPHA * 3 / 16, ALPHA * 12 / 16]
    )


def test_a_budget_that_ends_between_looks_spends_what_is_left() -> None:
    first = looks_up_to(40)[:2]
    assert due_look(17, 40, first, ALPHA, over=False) is None
    last = due_look(17, 40, first, ALPHA, over=True)
    assert last is not None
    assert last.alpha == pytest.approx(ALPHA * 15 / 16)


def test_a_budget_that_ends_at_a_look_adds_what_is_left_to_it() -> None:
    first = looks_up_to(40)[:2]
    last = due_look(10, 40, first, ALPHA, over=True)
    assert last is not None
    assert last.alpha == pytest.approx(ALPHA * 63 / 64)
    assert taking(first, last) == (first[0], last)


def test_no_look_is_taken_twice() -> None:
    first = looks_up_to(40)[:2]
    assert due_look(10, 40, first, ALPHA, over=False) is None


def test_a_larger_cap_shares_what_earlier_looks_left() -> None:
    before = looks_up_to(40)[:3]
    after = looks_up_to(120, before, first=21)
    assert after[:3] == before
    assert [look.pairs for look in after[3:]] == [30, 60, 120]
    assert sum(look.alpha for look in after) == pytest.approx(ALPHA)
    left = left_of(ALPHA, [look.alpha for look in before])
    assert after[3].alpha == pytest.approx(left * (30**2 - 20**2) / (120**2 - 20**2))


def test_nothing_is_left_after_the_last_look() -> None:
    looks = looks_up_to(40)
    assert left_of(ALPHA, [look.alpha for look in looks]) == 0.0
    assert due_look(80, 80, looks, ALPHA, over=True) is None


def test_one_pair_is_nothing_to_look_at() -> None:
    assert due_look(1, 1, (), ALPHA, over=True) is None
    assert due_look(0, 0, (), ALPHA, over=True) is None
