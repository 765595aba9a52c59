"""What every figure shares: its look, and how it becomes a file."""

import io
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from tuner.files import written_atomically
from tuner.present.figures.kit.theme import GRID, INK, PAPER, SPINE
from tuner.text import printable

WIDTH = 4.6
"""Inches of a figure of the report: a column of its page, or all of a phone's."""
SMALL = 9
"""The smallest text, in points: readable where the figure is scaled down to a phone."""
_DPI = 150
_FONT = "DejaVu Sans"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": ["sans-serif"],
    # The layout is made with this font: it is wider than most, so no other makes texts overlap.
    "font.sans-serif": [_FONT],
    "text.parse_math": False,  # a `$` in a name is a `$`
    "text.color": INK.light,
    "axes.labelcolor": INK.light,
    "axes.titlecolor": INK.light,
    "axes.edgecolor": SPINE.light,
    "axes.facecolor": "none",
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "xtick.color": SPINE.light,
    "ytick.color": SPINE.light,
    "xtick.labelcolor": INK.light,
    "ytick.labelcolor": INK.light,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID.light,
    "grid.alpha": 1.0,
    "hatch.color": INK.light,
    "patch.edgecolor": INK.light,
    "lines.color": INK.light,
    "figure.facecolor": PAPER.light,
    "savefig.facecolor": "auto",
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "legend.handlelength": 1.8,
    "legend.borderpad": 0.1,
    "legend.borderaxespad": 0.2,
    "svg.fonttype": "none",
    "svg.hashsalt": "rpc-tuner",
}


@contextmanager
def styled_figure(size: tuple[float, float]) -> Iterator[Figure]:
    """Yield a figure of this size in inches; what is drawn within the block has our style."""
    with mpl.rc_context(STYLE), warnings.catch_warnings():
        # A name may be in a script that the font lacks: an SVG shows it nevertheless.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.07, w_pad=0.05))


def rendered(figure: Figure, file_format: str) -> bytes:
    """The figure as the bytes of a file: `svg`, `png`, or another format of matplotlib."""
    for text in figure.findobj(Text):
        # No XML has control characters.
        text.set_text(printable(text.get_text()))
    buffer = io.BytesIO()
    note = "rpc-tuner figure, format 1"
    metadata = {"Description": note, "Date": None} if file_format == "svg" else {"Software": note}
    figure.savefig(buffer, format=file_format, dpi=_DPI, metadata=metadata)
    made = buffer.getvalue()
    # Any font without serifs will do: the reader need not have ours.
    return made.replace(f"'{_FONT}', ".encode(), b"") if file_format == "svg" else made


@contextmanager
def canvas(size: tuple[float, float], paths: Iterable[Path]) -> Iterator[Figure]:
    """Yield a figure of this size in inches, then write it to each path, by the path's suffix."""
    with styled_figure(size) as figure:
        yield figure
        for path in paths:
            with written_atomically(path) as partial:
                partial.write_bytes(rendered(figure, path.suffix.removeprefix(".")))
