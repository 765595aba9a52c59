"""A figure as it leaves this package: words, SVG and PNG."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from matplotlib.figure import Figure

from tuner.files import written_atomically
from tuner.present.figures.kit.canvas import WIDTH, rendered, styled_figure
from tuner.present.figures.kit.theme import THEME

FIGURE_NAMES = frozenset(
    {
        "step_time", "blocks", "latency", "cpu", "call_time", "parallelism", "timeline_baseline",
        "timeline_best", "timeline_challenger", "heat_map", "importance", "pareto", "comparison",
        "comparison_relative",
    }
)  # fmt: skip
"""The names of all figures that can be written."""
_ROOMY = 6.0
"""Inches that any legend fits into, for the time before its own height is known."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """What is said about a figure."""

    name: str
    """The stem of its files."""
    title: str
    """A short heading."""
    caption: str
    """A sentence or two: what the figure shows, how to read it, what was left out."""
    alt: str
    """The main numbers, for readers who cannot see the figure."""


@dataclass(frozen=True, kw_only=True)
class DrawnFigure(Words):
    """A figure to show on a page or to keep as files."""

    svg: str
    """As a file: in light colours, on white."""
    png: bytes

    @cached_property
    def inline_svg(self) -> str:
        """The SVG for an HTML page.

        Its colours are variables of `theme_css`, its background is the page's, and its ids begin
        with the figure's name.
        """
        return inline_svg(self.svg, self.name, self.alt)


def drawn(
    words: Words,
    height: float,
    draw: Callable[[Figure], None],
    finish: Callable[[Figure], None] | None = None,
) -> DrawnFigure:
    """A figure of the report's width.

    Args:
        words: What is said about it.
        height: Its height in inches, without its legends.
        draw: Draws everything on a figure.
        finish: Adds what depends on the final layout.
    """
    with styled_figure((WIDTH, height)) as figure:
        figure.patch.set_gid(BACKGROUND)
        draw(figure)
        _make_room(figure)
        if finish is not None:
            finish(figure)
        svg = rendered(figure, "svg").decode()
        # The layout was computed for the SVG, and holds for every format.
        figure.set_layout_engine("none")
        return DrawnFigure(
            name=words.name, title=words.title, caption=words.caption, alt=words.alt, svg=svg,
            png=rendered(figure, "png"),
        )  # fmt: skip


def _make_room(figure: Figure) -> None:
    """Make the figure higher by its legends, so that these take no room from the axes."""
    inside = [legend for axes in figure.axes if (legend := axes.get_legend())]
    legends = [*figure.legends, *inside]
    if legends:
        height = figure.get_figheight()
        figure.set_figheight(height + _ROOMY)
        figure.draw_without_rendering()
        pixels = sum(legend.get_window_extent().height for legend in legends)
        figure.set_figheight(height + pixels / figure.dpi)


def write_figures(figures: Iterable[DrawnFigure], folder: Path) -> None:
    """Write NAME.svg and NAME.png of each figure into the folder.

    Earlier figures that are not among these are removed; files of other names stay.
    """
    gone = set(FIGURE_NAMES)
    for figure in figures:
        gone.discard(figure.name)
        for suffix, content in (("svg", figure.svg.encode()), ("png", figure.png)):
            with written_atomically(folder / f"{figure.name}.{suffix}") as partial:
                partial.write_bytes(content)
    for name in gone:
        for suffix in ("svg", "png"):
            (folder / f"{name}.{suffix}").unlink(missing_ok=True)


BACKGROUND = "fig-background"
"""The id of the rectangle behind a figure; a page has its own background."""

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_VARIABLES = {colour.light: f"var({colour.variable})" for colour in THEME}
_COLOUR = re.compile("|".join(_VARIABLES))
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_NO_ROTATION = re.compile(r"rotate\(-?0(\.0+)? [^)]*\)")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def inline_svg(svg: str, name: str, alt: str) -> str:
    """The SVG of a file as an element of a page, which scales with the page.

    Args:
        svg: The file's content.
        name: What its ids begin with.
        alt: What a screen reader says.
    """
    root = ET.fromstring(svg)
    _leave_out(root)
    ids = _referenced(root)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib = _attributes(element.attrib, ids, name)
        for text in ("text", "tail"):
            # Spaces between elements are not seen; those within a text are.
            if not (getattr(element, text) or "").strip():
                setattr(element, text, None)
    view = root.attrib["viewBox"]
    # matplotlib writes this into a <style>, which would apply to the whole page.
    style = "stroke-linejoin:round;stroke-linecap:butt"
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg", "viewBox": view, "role": "img", "aria-label": alt,
        "style": style,
    }  # fmt: skip
    return ET.tostring(root, encoding="unicode")


def _leave_out(root: ET.Element) -> None:
    """Remove the metadata, the style sheet and the background."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style") or child.get("id") == BACKGROUND:
                parent.remove(child)


def _referenced(root: ET.Element) -> set[str]:
    found = {element.attrib[_HREF].removeprefix("#") for element in root.iter(f"{_SVG}use")}
    for element in root.iter():
        for value in element.attrib.values():
            found.update(_REFERENCE.findall(value))
    return found


def _attributes(attributes: dict[str, str], ids: set[str], name: str) -> dict[str, str]:
    """What an element keeps: ids that are used, colours as variables, numbers to two decimals."""
    kept: dict[str, str] = {}
    styles = []
    for key, value in attributes.items():
        value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
        if key == "id":
            if value in ids:
                kept["id"] = f"{name}-{value}"
        elif key == _HREF:
            kept["href"] = f"#{name}-{value.removeprefix('#')}"
        elif key in ("fill", "stroke"):
            styles.append(f"{key}:{value}")
        elif key == "style":
            styles.append(value.replace("; ", ";").replace(": ", ":"))
        else:
            plain = _NO_ROTATION.sub("", _NUMBER.sub(_rounded, value)).replace("\n", "").strip()
            if plain:
                kept[key] = plain
    if styles:
        kept["style"] = _COLOUR.sub(lambda found: _VARIABLES[found.group()], ";".join(styles))
    return kept


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found.group()):.2f}".rstrip("0").rstrip(".")
