"""How the accepted chance of a wrong claim (alpha) is shared among several looks at the data.

Who tests the same data again and again finds something in the end. So the looks share alpha: a
look at n of N pairs may have spent at most (n / N)^2 of it, and the last look gets what is left.

A budget never gets all of alpha: a study that is continued with a larger one needs some too.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Fewer pairs give an interval too wide to stop a confirmation early.
LEAST_EARLY_LOOK = 4
# A look at a small part costs little: it spends the square of its part.
_PARTS = (16, 8, 4, 2, 1)
# Fewer pairs give no interval.
LEAST_LOOK = 2
# The part of what is left of alpha that one budget may spend.
SESSION_SHARE = 0.8
# What rounding can leave of alpha.
_NOTHING = 1e-9


class Look(NamedTuple):
    """A test of the first `pairs` pairs, at the level `alpha`."""

    pairs: int
    alpha: float


def planned_looks(cap: int) -> list[int]:
    """The numbers of pairs after which a confirmation up to `cap` pairs may stop."""
    at = {math.ceil(cap / part) for part in _PARTS}
    return sorted(pairs for pairs in at if pairs >= LEAST_EARLY_LOOK)


def left_of(alpha: float, spent: Iterable[float]) -> float:
    """What is left of `alpha`, from what each look has spent; 0 where that is only rounding."""
    left = alpha - sum(spent)
    return left if left > _NOTHING * alpha else 0.0


def due_look(
    pairs: int, cap: int, taken: Sequence[Look], alpha: float, *, over: bool
) -> Look | None:
    """The look to take now, if one is due.

    A later look goes on where the earlier ones stopped: whatever the cap was then, it gets its
    share of what they left.

    Args:
        pairs: The pairs measured so far.
        cap: The most pairs that the budget allows.
        taken: The looks taken before, in order.
        alpha: What all looks together may spend.
        over: Whether no further pair can be measured, though `cap` is not reached.

    Returns:
        The look, which takes the place of one at the same number of pairs; None if none is due
        or nothing is left to spend.
    """
    earlier = [look for look in taken if look.pairs < pairs]
    left = left_of(alpha, [look.alpha for look in earlier])
    if pairs < LEAST_LOOK or not left:
        return None
    if over or pairs >= cap:
        return Look(pairs, left)
    if pairs not in planned_looks(cap) or any(look.pairs == pairs for look in taken):
        return None
    done = earlier[-1].pairs if earlier else 0
    return Look(pairs, left * (pairs**2 - done**2) / (cap**2 - done**2))


def taking(taken: Sequence[Look], look: Look) -> tuple[Look, ...]:
    """The looks with `look` among them, in place of one at the same number of pairs.

    The data of the two are the same, so the wider test of the first is part of the second.
    """
    return (*(each for each in taken if each.pairs < look.pairs), look)
