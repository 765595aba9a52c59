"""The kinds of verdict; apart from how one is reached, so that naming them imports no numpy."""

from typing import Literal

VerdictKind = Literal["better", "tie", "keep-baseline", "undecided"]
