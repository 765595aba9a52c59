"""Whether a configuration does less of the work: more of its calls fail than the baseline's, or it
makes fewer. What is then faster is no gain.

Calls of one world do not fail independently: a hiccup of the machine fails several. So one world
alone is a suspicion, which no claim may rest on, and no proof.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import special

from tuner.decide.statistics import FloatArray
from tuner.decide.verdict import FAILING_SHARE

SUSPICION = 0.05  # the chance of calls that fail alike to look so different
_PRIOR = 2.0  # calls that fail at once, where one world alone was seen
_LEAST_SHOWN = 2  # worlds


class Calls(NamedTuple):
    """The calls of one world."""

    made: int
    failed: int
    functions: Mapping[str, int] = {}
    """How many were made of what; empty where that is not known."""


@dataclass
class CallTally:
    """The calls of all worlds of one configuration."""

    worlds: list[Calls] = field(default_factory=list)
    made: int = 0
    failed: int = 0
    same: dict[str, int] = field(default_factory=dict)
    """What has one number in each world: calls by function, and by the empty name all that were
    answered."""

    def add(self, calls: Calls) -> None:
        """Take in one world."""
        now = {**calls.functions, "": calls.made - calls.failed}
        known = self.same if self.worlds else now
        self.same = {name: made for name, made in known.items() if now.get(name) == made}
        self.worlds.append(calls)
        self.made += calls.made
        self.failed += calls.failed

    @property
    def share(self) -> float:
        """The share of the calls that failed."""
        return self.failed / self.made if self.made else 0.0

    @property
    def excess(self) -> tuple[float, int]:
        """How far the numbers of failed calls are from those of a binomial, as Pearson's statistic,
        and its degrees of freedom; none where no call failed."""
        if not self.failed:
            return 0.0, 0
        made = np.array([each.made for each in self.worlds if each.made], dtype=float)
        failed = np.array([each.failed for each in self.worlds if each.made], dtype=float)
        expected = made * self.share
        spread = expected * (1 - self.share)
        if not spread.all():
            return 0.0, len(made) - 1  # all of them failed, in each world
        return float(((failed - expected) ** 2 / spread).sum()), len(made) - 1


@dataclass(frozen=True)
class LostCalls:
    """That a configuration does less of the work than the baseline does."""

    kind: Literal["failed", "made", "answered"]
    lost: int  # of failed ones how many; else how many there are in each world
    of: int  # of failed ones of how many; else how many the baseline has in each world
    baseline_failed: int
    baseline_made: int
    function: str  # the only one that is called; empty if there are several, or it is not known
    is_shown: bool  # whether that is no chance; else no claim may rest on the configuration

    @property
    def text(self) -> str:
        """`fails 20 of 24 calls of work, the baseline none`, to follow the configuration."""
        which = f" of {self.function}" if self.function else ""
        if self.kind == "made":
            return f"makes {self.lost:,} calls{which} in each run, the baseline {self.of:,}"
        if self.kind == "answered":
            return f"has {self.lost:,} calls answered in each run, the baseline {self.of:,}"
        baseline = f"{self.baseline_failed:,} of {self.baseline_made:,}"
        other = baseline if self.baseline_failed else "none"
        return f"fails {self.lost:,} of {self.of:,} calls{which}, the baseline {other}"


def lost_calls(
    own: CallTally, baseline: CallTally, *, alpha: float, configs: int, once: bool = False
) -> LostCalls | None:
    """Whether a configuration fails more calls than the baseline, or has fewer; None if not.

    Args:
        own: Its worlds.
        baseline: Those of the baseline.
        alpha: The chance of a wrong claim that is accepted; these claims get a share of it.
        configs: How many configurations are compared with the baseline.
        once: Whether it has no other world, so that a single one may show it.
    """
    if not own.worlds or not baseline.worlds:
        return None
    return _fails_more(own, baseline, alpha, configs, once) or _makes_fewer(own, baseline)


def _fails_more(
    own: CallTally, baseline: CallTally, alpha: float, configs: int, once: bool
) -> LostCalls | None:
    if own.share <= baseline.share:
        return None
    chance, worlds = chance_of(own, baseline), len(own.worlds)
    most = max(each.failed / each.made for each in baseline.worlds if each.made)
    is_each = worlds > 1 and all(each.failed > most * each.made for each in own.worlds)
    if chance > SUSPICION and not is_each:
        return None
    # It is asked after each world: the n-th one spends alpha / (n (n + 1)).
    spent = FAILING_SHARE * alpha / max(1, configs) / (worlds * (worlds + 1))
    is_shown = (worlds >= _LEAST_SHOWN or once) and chance <= spent
    return LostCalls(
        "failed", own.failed, own.made, baseline.failed, baseline.made, _only(own), is_shown
    )


def chance_of(own: CallTally, baseline: CallTally) -> float:
    """The chance that as many of its calls fail, if they do so as often as the baseline's: Fisher's
    exact test, of fewer calls where several fail at once (quasi-likelihood)."""
    (excess, freedom), (more, others) = own.excess, baseline.excess
    at_once = max(1.0, (_PRIOR + excess + more) / (1 + freedom + others))
    made, failed = int(own.made / at_once), int(own.failed / at_once)
    others_made = int(baseline.made / at_once)
    others_failed = min(others_made, -int(-baseline.failed // at_once))
    every, failures = made + others_made, failed + others_failed
    ways = np.arange(failed, min(failures, made) + 1)
    logs = _log_choose(failures, ways) + _log_choose(every - failures, made - ways)
    return float(min(1.0, np.exp(logs - _log_choose(every, made)).sum()))


def _log_choose(of: float, some: Any) -> FloatArray:
    chosen = np.asarray(some, dtype=float)
    found: FloatArray = (
        special.gammaln(of + 1) - special.gammaln(chosen + 1) - special.gammaln(of - chosen + 1)
    )
    return found


def _makes_fewer(own: CallTally, baseline: CallTally) -> LostCalls | None:
    """That it has fewer calls in each world, where both have a fixed number."""
    if len(baseline.worlds) < _LEAST_SHOWN:
        return None
    is_shown = len(own.worlds) >= _LEAST_SHOWN
    for name, made in baseline.same.items():
        mine = own.same.get(name, made)
        # What is not called at all is called by another name, or in another part of the program.
        if 0 < mine < made:
            kind: Literal["made", "answered"] = "made" if name else "answered"
            return LostCalls(kind, mine, made, 0, baseline.made, name, is_shown)
    return None


def _only(tally: CallTally) -> str:
    """The only function that is called; empty if there are several, or it is not known."""
    names = {name for each in tally.worlds for name in each.functions}
    return names.pop() if len(names) == 1 else ""
