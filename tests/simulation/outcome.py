"""What one simulated study, or one rival of it, came to."""

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
    covered: bool | None = None
    """Whether its interval holds the true speed-up; None if it has no interval."""
    width: float = nan
    """Half the width of its interval of log(speed-up)."""
    spent_s: float = nan
