"""The kinds of verdict, in a module of their own so that naming them imports no numpy."""

from typing import Literal

VerdictKind = Literal["better", "tie", "keep-baseline", "undecided"]
