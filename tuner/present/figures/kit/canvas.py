"""What every figure shares: its look, and how it becomes a file or a part of a page."""

import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text

from tuner.files import written_atomically
from tuner.present.figures.kit.theme import GRID, INK, PAPER, SPINE, THEME
from tuner.text import printable

FIGURE_NAMES = frozenset(
    {
        "step_time", "blocks", "latency", "cpu", "call_time", "parallelism", "timeline_baseline",
        "timeline_best", "timeline_challenger", "heat_map", "importance", "pareto", "comparison",
        "comparison_relative", "forecast", "changes",
    }
)  # fmt: skip
"""The names of all figures that can be written."""
SMALL = 9
"""The smallest text, in points: readable on a phone."""
_WIDTH = 4.6
"""Inches of a figure of the report: a column of its page, or all of a phone's."""
_ROOMY = 6.0
"""Inches that any legend fits into, for the time before its own height is known."""
_FONT = "DejaVu Sans"

_BACKGROUND = "fig-background"
"""The id of the rectangle behind a figure; a page has its own background."""
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_VARIABLES = {colour.light: f"var({colour.variable})" for colour in THEME}
_COLOUR = re.compile("|".join(_VARIABLES))
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_NO_ROTATION = re.compile(r"rotate\(-?0(\.0+)? [^)]*\)")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")

STYLE: dict[Any, Any] = {
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor",
         "ytick.labelcolor", "hatch.color", "patch.edgecolor", "lines.color"),
        INK.light,
    ),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), SPINE.light),
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), 10),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), SMALL),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "font.family": ["sans-serif"],
    # The layout is made with this font: it is wider than most, so no other makes texts overlap.
    "font.sans-serif": [_FONT],
    "text.parse_math": False,  # a `$` in a name is a `$`
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID.light,
    "grid.alpha": 1.0,
    "figure.facecolor": PAPER.light,
    "savefig.facecolor": "auto",
    "legend.handlelength": 1.8,
    "legend.borderpad": 0.1,
    "legend.borderaxespad": 0.2,
    "svg.fonttype": "none",
    "svg.hashsalt": "rpc-tuner",
}  # fmt: skip


@contextmanager
def styled_figure(size: tuple[float, float]) -> Iterator[Figure]:
    """Yield a figure of this size in inches, and our style for what is drawn meanwhile."""
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
    figure.savefig(buffer, format=file_format, dpi=150, metadata=metadata)
    made = buffer.getvalue()
    # Any font without serifs will do: the reader need not have ours.
    return made.replace(f"'{_FONT}', ".encode(), b"") if file_format == "svg" else made


@contextmanager
def canvas(size: tuple[float, float], path: Path) -> Iterator[Figure]:
    """Yield a figure of this size in inches, then write it, in the format of the path's suffix."""
    with styled_figure(size) as figure:
        yield figure
        with written_atomically(path) as partial:
            partial.write_bytes(rendered(figure, path.suffix.removeprefix(".")))


@dataclass(frozen=True, kw_only=True)
class DrawnFigure:
    """A figure to show on a page or to keep as files of its name: in light colours, on white."""

    name: str
    title: str
    caption: str
    """A sentence or two: what the figure shows, how to read it, what was left out."""
    alt: str
    """The main numbers, for readers who cannot see the figure."""
    svg: str
    png: bytes

    @property
    def inline_svg(self) -> str:
        """The SVG for an HTML page, which scales with it: its colours are those of `theme_css`."""
        root = ET.fromstring(self.svg)
        for parent in list(root.iter()):
            for child in list(parent):
                is_own = child.tag in (f"{_SVG}metadata", f"{_SVG}style")
                if is_own or child.get("id") == _BACKGROUND:
                    parent.remove(child)
        ids = {element.attrib[_HREF].removeprefix("#") for element in root.iter(f"{_SVG}use")}
        for element in root.iter():
            ids.update(*map(_REFERENCE.findall, element.attrib.values()))
        for element in root.iter():
            element.tag = element.tag.removeprefix(_SVG)
            element.attrib = _attributes(element.attrib, ids, self.name)
            # Spaces between elements are not seen; those within a text are.
            element.text, element.tail = (
                text if text and text.strip() else None for text in (element.text, element.tail)
            )
        root.attrib = {
            "xmlns": "http://www.w3.org/2000/svg", "viewBox": root.attrib["viewBox"],
            "role": "img", "aria-label": self.alt,
            # matplotlib writes this into a <style>, which would apply to the whole page.
            "style": "stroke-linejoin:round;stroke-linecap:butt",
        }  # fmt: skip
        return ET.tostring(root, encoding="unicode")


def drawn(
    draw: Callable[[Figure], object],
    height: float,
    finish: Callable[[Figure], None] | None = None,
    **words: str,
) -> DrawnFigure:
    """A figure so many inches high without legends; `finish` adds what depends on the layout."""
    with styled_figure((_WIDTH, height)) as figure:
        figure.patch.set_gid(_BACKGROUND)
        draw(figure)
        _make_room(figure)
        if finish is not None:
            finish(figure)
        svg = rendered(figure, "svg").decode()
        # The layout was computed for the SVG, and holds for every format.
        figure.set_layout_engine("none")
        return DrawnFigure(svg=svg, png=rendered(figure, "png"), **words)


def _make_room(figure: Figure) -> None:
    """Make the figure higher by its legends, so that these take no room from the axes."""
    inside = [legend for axes in figure.axes if (legend := axes.get_legend())]
    if legends := [*figure.legends, *inside]:
        height = figure.get_figheight()
        figure.set_figheight(height + _ROOMY)
        figure.draw_without_rendering()
        pixels = sum(legend.get_window_extent().height for legend in legends)
        figure.set_figheight(height + pixels / figure.dpi)


def write_figures(figures: Iterable[DrawnFigure], folder: Path) -> None:
    """Write NAME.svg and NAME.png of each figure; earlier figures not among these are removed."""
    gone = {f"{name}.{suffix}" for name in FIGURE_NAMES for suffix in ("svg", "png")}
    for figure in figures:
        for suffix, content in (("svg", figure.svg.encode()), ("png", figure.png)):
            gone.discard(file := f"{figure.name}.{suffix}")
            with written_atomically(folder / file) as partial:
                partial.write_bytes(content)
    for file in gone:
        (folder / file).unlink(missing_ok=True)


def _attributes(attributes: dict[str, str], ids: set[str], name: str) -> dict[str, str]:
    """What an element keeps: ids that are used, colours as variables, numbers to two decimals."""
    kept: dict[str, str] = {}
    styles = []
    for key, value in attributes.items():
        value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
        if key == "id":
            kept |= {"id": f"{name}-{value}"} if value in ids else {}
        elif key == _HREF:
            kept["href"] = f"#{name}-{value.removeprefix('#')}"
        elif key in ("fill", "stroke"):
            styles.append(f"{key}:{value}")
        elif key == "style":
            styles.append(value.replace("; ", ";").replace(": ", ":"))
        elif plain := _NO_ROTATION.sub("", _NUMBER.sub(_rounded, value)).replace("\n", "").strip():
            kept[key] = plain
    if styles:
        kept["style"] = _COLOUR.sub(lambda found: _VARIABLES[found.group()], ";".join(styles))
    return kept


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found.group()):.2f}".rstrip("0").rstrip(".")
