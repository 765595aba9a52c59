import re

import pytest

from tuner.present.figures import theme_css
from tuner.present.figures.heat_map import text_on
from tuner.present.figures.kit.theme import HEAT, PAPER_DARK, THEME, Colour, contrast, luminance

LEAST = {"text": 4.5, "mark": 3.0, "filled": 1.0, "faint": 1.0}


@pytest.mark.parametrize("colour", THEME, ids=lambda colour: colour.name)
def test_a_colour_is_seen_on_a_light_page_and_on_a_dark_one(colour: Colour) -> None:
    assert contrast(colour.light, "#ffffff") >= LEAST[colour.use]
    assert contrast(colour.dark, PAPER_DARK) >= LEAST[colour.use]


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


def test_the_shades_of_cells_go_from_light_to_dark() -> None:
    steps = [luminance(shade.light) for shade in HEAT]
    assert steps == sorted(steps, reverse=True)


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_the_css_has_every_colour_and_its_dark_variant() -> None:
    light, _, dark = theme_css().partition("@media (prefers-color-scheme: dark)")
    for colour in THEME:
        assert f"--fig-{colour.name}:{colour.light};" in light
        assert (f"--fig-{colour.name}:{colour.dark};" in dark) == (colour.dark != colour.light)
    assert light.startswith(":root{")
    assert dark.strip().endswith("}}")
