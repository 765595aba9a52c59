"""The rules of a decision: epsilon, and how sure a claim must be."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What counts as a difference, and how sure a claim must be."""

    epsilon: float
    confidence: float

    @property
    def log_epsilon(self) -> float:
        """log(1 + epsilon): the difference on a logarithmic scale."""
        return math.log1p(self.epsilon)

    @property
    def alpha(self) -> float:
        """The chance of a wrong claim that is accepted."""
        return 1 - self.confidence
