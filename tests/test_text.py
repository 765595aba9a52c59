"""Numbers are read at a glance, or are not there."""

import math

import pytest

from tuner.text import interval_text, three_digits


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234.5, "1234"), (100.0, "100"), (12.34, "12.3"), (2.0, "2"), (0.5, "0.5"), (0.0, "0"),
        (0.01234, "0.0123"), (1.65e-6, "0.00000165"), (1e-15, "0"), (-3.14159, "-3.14"),
        (math.nan, ""),
    ],
)  # fmt: skip
def test_three_digits_and_never_a_power_of_ten(value: float, text: str) -> None:
    assert three_digits(value) == text


def test_an_interval_that_says_nothing_is_not_shown() -> None:
    assert interval_text(1.9, 2.1) == "1.9-2.1"
    assert interval_text(math.nan, math.nan) == ""
    assert interval_text(1.65e-6, 4955000.0) == ""
    assert interval_text(1.2, math.inf) == ""
