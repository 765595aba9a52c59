"""The palette of all figures, for light and dark pages.

No two light colours are equal: each is found in a drawing, and replaced by its CSS variable.
"""

from typing import Literal, NamedTuple

from tuner.study.answer import Contender


class Colour(NamedTuple):
    """A colour as matplotlib writes it, `#rrggbb` in lower case, on a light and a dark page."""

    name: str
    use: Literal["text", "mark", "filled", "faint"]
    """Text has at least a contrast of 4.5 to the page, a mark at least 3; what is filled has an
    edge that is a mark, and what is faint only guides the eye."""
    light: str
    dark: str

    @property
    def variable(self) -> str:
        """The CSS variable."""
        return f"--fig-{self.name}"


INK = Colour("ink", "text", "#1b1f24", "#e8eaed")
MUTED = Colour("muted", "text", "#59626c", "#a7b0ba")
PAPER = Colour("paper", "faint", "#ffffff", "#14171a")
GRID = Colour("grid", "faint", "#e3e6e9", "#2b3138")
SPINE = Colour("spine", "mark", "#868e96", "#788290")

BASELINE = Colour("baseline", "mark", "#23282e", "#dde2e8")
BEST = Colour("best", "mark", "#c2410c", "#fb923c")
CHALLENGER = Colour("challenger", "mark", "#7a3e9d", "#c79bea")
OTHER = Colour("other", "mark", "#7d858e", "#8b949e")

SERIES = (
    Colour("series-1", "mark", "#2f6aa3", "#7fb2e5"),
    Colour("series-2", "mark", "#b0472b", "#f0a080"),
    Colour("series-3", "mark", "#2e7d4f", "#74c794"),
    Colour("series-4", "mark", "#7b4fa3", "#c3a0e8"),
    Colour("series-5", "mark", "#8a6d00", "#d9bc4a"),
    Colour("series-6", "mark", "#9c3a6e", "#ec93be"),
)

TRANSPORT = Colour("transport", "filled", "#b9cfe4", "#2f4a66")
QUEUE = Colour("queue", "filled", "#f3dcab", "#665628")
ON_CPU = Colour("on-cpu", "mark", "#2b6299", "#5fa3dd")
RUN_QUEUE = Colour("run-queue", "filled", "#dd9065", "#b5673d")
OFF_CPU = Colour("off-cpu", "filled", "#eef1f4", "#262c32")
SERVED = Colour("served", "mark", "#3f7a58", "#74b58c")
PENDING = Colour("pending", "filled", "#cbccd6", "#4b4f5a")

# Paul Tol's medium contrast: the colour-blind can tell these apart, and in grey their lightness.
# The two blues are far apart: few programs have so many functions that they need both.
FUNCTIONS = (
    Colour("function-1", "filled", "#6699cc", "#6fa3d6"),
    Colour("function-2", "filled", "#eecc66", "#e6c663"),
    Colour("function-3", "filled", "#994455", "#b35a6c"),
    Colour("function-4", "filled", "#ee99aa", "#f0a3b2"),
    Colour("function-5", "filled", "#997700", "#a88a1f"),
    Colour("function-6", "filled", "#004488", "#2f6fb5"),
)
OTHER_FUNCTIONS = Colour("other-functions", "filled", "#dddddd", "#59616a")
# The edge of a bar is darker than its fill on a light page, and lighter on a dark one. A thin bar
# has hardly more than its edges.
EDGES = (
    Colour("function-1-edge", "mark", "#3d5c7a", "#a9c8e6"),
    Colour("function-2-edge", "mark", "#8f7a3d", "#f3e1a8"),
    Colour("function-3-edge", "mark", "#5c2933", "#d79aa7"),
    Colour("function-4-edge", "mark", "#8f5c66", "#f7cdd5"),
    Colour("function-5-edge", "mark", "#5c4700", "#d6c27c"),
    Colour("function-6-edge", "mark", "#002a54", "#4d86c4"),
)
OTHER_FUNCTIONS_EDGE = Colour("other-functions-edge", "mark", "#85898d", "#9aa2ab")
OPERATORS = Colour("operators", "mark", "#222222", "#d5d8dc")
IN_FLIGHT = Colour("in-flight", "mark", "#8c9298", "#69727c")
IDLE = Colour("idle", "faint", "#f3f3f3", "#22272d")

# The cells of a heat map, and the texts on them, are the same on light and dark pages.
_SHADES = ("#f2f7fc", "#dce9f5", "#c2d9ee", "#a3c6e4", "#3f77ad", "#255a8f", "#123a63")
HEAT = tuple(Colour(f"heat-{n}", "filled", shade, shade) for n, shade in enumerate(_SHADES))
ON_LIGHT_CELL = Colour("on-light-cell", "faint", "#0b0d0f", "#0b0d0f")
ON_DARK_CELL = Colour("on-dark-cell", "faint", "#fcfdfe", "#fcfdfe")
NO_VALUE = Colour("no-value", "filled", "#e9e6e1", "#3a3733")

THEME: tuple[Colour, ...] = (
    INK, MUTED, PAPER, GRID, SPINE, BASELINE, BEST, CHALLENGER, OTHER, *SERIES,
    TRANSPORT, QUEUE, ON_CPU, RUN_QUEUE, OFF_CPU, SERVED, PENDING,
    *FUNCTIONS, OTHER_FUNCTIONS, *EDGES, OTHER_FUNCTIONS_EDGE, OPERATORS, IN_FLIGHT, IDLE,
    *HEAT, ON_LIGHT_CELL, ON_DARK_CELL, NO_VALUE,
)  # fmt: skip

# Series differ in marker and line, not only in colour: they can be told apart in grey.
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))


class Look(NamedTuple):
    """How a contender is drawn, told apart by more than its colour."""

    colour: Colour
    marker: str
    size: float
    line: str
    fill: str  # of the marker's face


LOOKS: dict[Contender, Look] = {
    "baseline": Look(BASELINE, "s", 5, "-", "none"),
    "best": Look(BEST, "*", 8, "--", BEST.light),
    "challenger": Look(CHALLENGER, "D", 5, "--", CHALLENGER.light),
}


def theme_css() -> str:
    """The variables that inline figures are coloured by, for a light page and for a dark one."""
    light = "".join(f"{colour.variable}:{colour.light};" for colour in THEME)
    dark = "".join(f"{each.variable}:{each.dark};" for each in THEME if each.dark != each.light)
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"
