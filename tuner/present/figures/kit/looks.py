"""How the baseline, the best and the challenger are drawn: which colour, marker and line."""

from typing import NamedTuple

from tuner.present.figures.kit.theme import BASELINE, BEST, CHALLENGER, Colour
from tuner.study.answer import Contender


class Look(NamedTuple):
    """How a contender is drawn, told apart by more than its colour."""

    colour: Colour
    marker: str
    size: float
    line: str
    hollow: bool = False

    @property
    def fill(self) -> str:
        """The colour of the marker's face, as matplotlib takes it."""
        return "none" if self.hollow else self.colour.light


LOOKS: dict[Contender, Look] = {
    "baseline": Look(BASELINE, "s", 5, "-", hollow=True),
    "best": Look(BEST, "*", 8, "--"),
    "challenger": Look(CHALLENGER, "D", 5, "--"),
}
