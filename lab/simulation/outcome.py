"""What one simulated study, or one rival of it, came to."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a method answered. Configurations are known by their numbers; 0 is the baseline."""

    recommended: int
    favourite: int
    """What it would take if it had to take the one most likely to be the best."""
    worlds: int
    verdict: str = "none"
    wrong: bool = False
    """Whether it claimed something that is not true."""
    wrong_knobs: bool = False
    """Whether it named a best number of threads, or an interaction, that is none."""
    knobs_covered: Sequence[bool] = ()
    """Whether its interval of what a knob gave holds the truth, for each knob."""
    covered: bool | None = None
    """Whether its interval holds the true speed-up; None if it has no interval."""
    width: float = nan
    """Half the width of its interval of log(speed-up)."""
    spent_s: float = nan
