"""From the confirmation's pairs of worlds to the verdict."""

import math
from dataclasses import dataclass

from tuner.decide.race import Rules
from tuner.decide.statistics import FloatArray, Interval, differences, interval
from tuner.decide.verdict_kind import VerdictKind

# An answer that is clear is still worth the budget until its interval is this narrow.
WIDE = math.log(1.04)


@dataclass(frozen=True)
class Comparison:
    """The challenger against the baseline, on fresh worlds that chose neither."""

    log_speedup: Interval | None
    """log(baseline time / challenger time); None when fewer than two pairs were measured."""
    pairs: int
    kind: VerdictKind

    @property
    def speedup(self) -> Interval | None:
        """Baseline time / challenger time."""
        return None if self.log_speedup is None else self.log_speedup.exp()


def confirmation_looks(cap: int) -> list[int]:
    """The numbers of pairs after which a confirmation up to `cap` pairs may stop early."""
    return sorted({look for look in (math.ceil(cap / 4), math.ceil(cap / 2), cap) if look >= 4})


def look_confidence(pairs: int, cap: int, rules: Rules, *, over: bool) -> float:
    """The confidence of the interval at this look, so that all looks together keep the rules'.

    The looks spend alpha as (pairs / cap)^2: early ones little, and the last one, at the cap or
    where the budget is `over` before it, all that is left.
    """
    if cap < 1:
        return rules.confidence  # no time for any pair, so no look to share alpha with
    previous = max((look for look in confirmation_looks(cap) if look < pairs), default=0)
    share = 1.0 if over or pairs >= cap else (pairs / cap) ** 2
    return 1 - rules.alpha * (share - (previous / cap) ** 2)


def compare(
    baseline: FloatArray,
    challenger: FloatArray,
    *,
    cap: int,
    over: bool,
    rules: Rules,
    challenger_cheaper: bool,
) -> Comparison:
    """The comparison after the pairs so far; `over` says that no more will come.

    `baseline` and `challenger` are log(objective), pair by pair. `challenger_cheaper` decides a
    tie in time.
    """
    pairs = len(baseline)
    confidence = look_confidence(pairs, cap, rules, over=over)
    found = interval(differences(baseline, challenger), confidence)
    if found is None:
        return Comparison(None, pairs, "undecided")
    return Comparison(found, pairs, _kind(found, rules, challenger_cheaper))


def may_stop(comparison: Comparison, cap: int) -> bool:
    """Whether the answer is clear, and known well enough, after these pairs."""
    if comparison.pairs >= cap:
        return True
    if comparison.pairs not in confirmation_looks(cap) or comparison.log_speedup is None:
        return False
    narrow = (comparison.log_speedup.high - comparison.log_speedup.low) / 2 <= WIDE
    return comparison.kind != "undecided" and narrow


def _kind(log_speedup: Interval, rules: Rules, challenger_cheaper: bool) -> VerdictKind:
    epsilon = rules.log_epsilon
    if log_speedup.low > 0 and log_speedup.estimate >= epsilon:
        return "better"
    if log_speedup.high <= epsilon:
        tied = log_speedup.low >= -epsilon
        return "tie" if tied and challenger_cheaper else "keep-baseline"
    return "undecided"
