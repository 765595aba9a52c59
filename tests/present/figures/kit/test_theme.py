import re

import pytest

from tuner.present.figures import theme_css
from tuner.present.figures.kit.theme import HEAT, PAPER, THEME, Colour
from tuner.present.figures.knob_figures import text_on


def luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb`, from 0 to 1, as WCAG 2 defines it."""
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """The contrast of two colours, from 1 to 21, as WCAG 2 defines it."""
    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


LEAST = {"text": 4.5, "mark": 3.0, "filled": 1.0, "faint": 1.0}


@pytest.mark.parametrize("colour", THEME, ids=lambda colour: colour.name)
def test_a_colour_is_seen_on_a_light_page_and_on_a_dark_one(colour: Colour) -> None:
    assert contrast(colour.light, "#ffffff") >= LEAST[colour.use]
    assert contrast(colour.dark, PAPER.dark) >= LEAST[colour.use]


def test_no_two_colours_are_alike_in_light_or_in_name() -> None:
    assert len({colour.light for colour in THEME}) == len(THEME)
    assert len({colour.name for colour in THEME}) == len(THEME)
    assert all(re.fullmatch(r"#[0-9a-f]{6}", each) for c in THEME for each in (c.light, c.dark))
    # What matplotlib does not write at all, as it is the default.
    assert "#000000" not in {colour.light for colour in THEME}


@pytest.mark.parametrize("shade", HEAT, ids=lambda shade: shade.name)
def test_the_number_on_a_cell_can_be_read(shade: Colour) -> None:
    assert contrast(text_on(shade).light, shade.light) >= 4.5
    assert shade.light == shade.dark
    assert text_on(shade).light == text_on(shade).dark


def test_the_css_has_every_colour_and_its_dark_variant() -> None:
    light, _, dark = theme_css().partition("@media (prefers-color-scheme: dark)")
    for colour in THEME:
        assert f"--fig-{colour.name}:{colour.light};" in light
        assert (f"--fig-{colour.name}:{colour.dark};" in dark) == (colour.dark != colour.light)
    assert light.startswith(":root{")
    assert dark.strip().endswith("}}")
