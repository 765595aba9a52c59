"""A figure's SVG as a part of an HTML page: coloured by the page, with ids of its own."""

import re
import xml.etree.ElementTree as ET

from tuner.present.figures.kit.theme import THEME

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
