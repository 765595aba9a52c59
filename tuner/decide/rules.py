"""The rules of a decision, and the kinds of verdict. Naming them imports no numpy."""

import math
from dataclasses import dataclass
from typing import Literal

VerdictKind = Literal["better", "tie", "keep-baseline", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What counts as a difference, and how sure a claim must be."""

    epsilon: float
    confidence: float

    @property
    def log_epsilon(self) -> float:
        """log(1 + epsilon)."""
        return math.log1p(self.epsilon)

    @property
    def alpha(self) -> float:
        """The chance of a wrong claim that is accepted."""
        return 1 - self.confidence
