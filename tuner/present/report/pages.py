"""Pages from Jinja2 templates, which refuse a name that they do not know."""

import functools
import re
from importlib.metadata import version
from typing import Any

import jinja2
from markupsafe import Markup, escape

from tuner.present.figures import theme_css
from tuner.text import marked_names, printable

FORMAT = 1
_WHOLE = re.compile(r"(?<![\w-])--[a-z][a-z-]*|[+-]?\d[\d.]*(?:-\d[\d.]*)? %")


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tuner.present.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )
    environment.filters["prose"] = prose
    environment.filters["prose_with_names"] = prose_with_names
    return environment


def _seen(value: object) -> object:
    """The value of an expression; what would act in a text, such as a mark that turns the direction
    of writing, is escaped."""
    if isinstance(value, Markup):
        return Markup(printable(value))
    return printable(value) if isinstance(value, str) else value


def prose(text: str) -> Markup:
    """A sentence, escaped, in which no line ends inside a flag, a percentage or an interval."""
    escaped = str(escape(text))
    return Markup(_WHOLE.sub(r'<span class="whole">\g<0></span>', escaped))


def prose_with_names(text: str) -> Markup:
    """`prose`, in which the names of functions are code."""
    return Markup(marked_names(str(prose(text)), lambda name: f"<code>{name}</code>"))


def render(template: str, **values: Any) -> str:
    """The page of a template with these values; their text is escaped."""
    return _templates().get_template(f"{template}.html.j2").render(
        format=FORMAT, version=version("rpc-tuner"), theme_css=Markup(theme_css()), **values
    )  # fmt: skip
