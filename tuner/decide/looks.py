"""How the accepted chance of a wrong claim (alpha) is shared among several looks at the data.

Who tests the same data again and again finds something in the end. So the looks share alpha: when
the part t of a budget is spent, they may have spent t^2 of it, and the last look gets what is left.
Where the budget is only a limit it is the root of t, for most searches end long before it.

A budget never gets all of alpha: a study that is continued with a larger one needs some too.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# The part of what is left of alpha that one budget may spend.
SESSION_SHARE = 0.8
# What rounding can leave of alpha.
_NOTHING = 1e-9
# A look for every so many times as many blocks, from so many on.
LOOK_GROWTH = 1.4
# The power of the spent part of a budget, and of a limit.
_PACE, _EARLY_PACE = 2.0, 0.5
FIRST_LOOK = 4


class Look(NamedTuple):
    """A test of every rival on the first `rows` blocks, at the level `alpha`."""

    rows: int
    alpha: float
    spent_s: float
    """How much of the budget was spent then, in seconds."""
    total_s: float
    """The budget."""


def is_due(rows: int, taken: Sequence[Look]) -> bool:
    """Whether so many blocks are enough for another look."""
    return rows >= max(FIRST_LOOK, LOOK_GROWTH * taken[-1].rows if taken else 0.0)


def due_alpha(
    alpha: float,
    taken: Sequence[Look],
    spent_s: float,
    total_s: float,
    *,
    over: bool,
    early: bool = False,
) -> float:
    """What a look may spend now: the later, the more; the last one what is left for this budget.

    A study that is continued with another budget has a part of alpha left for that.

    Args:
        alpha: What all looks together may spend.
        taken: The looks taken before, in order.
        spent_s: How much of the budget is spent, in seconds.
        total_s: The budget.
        over: Whether this is the last look.
        early: Whether the budget is only a limit, so that early looks get more.
    """
    before = [look.alpha for look in taken if look.total_s != total_s]
    this = [look.alpha for look in taken if look.total_s == total_s]
    left = _left_of(SESSION_SHARE * _left_of(alpha, before), this)
    if over or not left:
        return left
    done_s = min(taken[-1].spent_s if taken else 0.0, total_s)
    pace = _EARLY_PACE if early else _PACE
    done = math.pow(done_s / total_s, pace)
    now = math.pow(min(spent_s, total_s) / total_s, pace)
    share = (now - done) / max(1e-9, 1 - done)
    return left * min(1.0, max(0.0, share))


def _left_of(alpha: float, spent: Iterable[float]) -> float:
    """What is left of `alpha`; 0 where that is only rounding."""
    left = alpha - sum(spent)
    return left if left > _NOTHING * alpha else 0.0
