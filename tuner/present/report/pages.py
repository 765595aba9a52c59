"""Pages from Jinja2 templates, which refuse a name that they do not know."""

import functools
from importlib.metadata import version
from typing import Any

import jinja2
from markupsafe import Markup

from tuner.present.figures import theme_css

FORMAT = 1


@functools.cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("tuner.present.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> str:
    """The page of a template with these values; their text is escaped."""
    return _templates().get_template(f"{template}.html.j2").render(
        format=FORMAT, version=version("rpc-tuner"), theme_css=Markup(theme_css()), **values
    )  # fmt: skip
