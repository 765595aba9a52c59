"""Numbers as people read them."""

import math

MOST_TELLING = 100
"""An interval that spans more than this factor, of two worlds say, tells nothing."""


def three_digits(value: float) -> str:
    """Three significant digits, never as a power of ten; nothing where the number is unknown."""
    if math.isnan(value):
        return ""
    if abs(value) >= 100:
        return f"{value:.0f}"
    # Digits behind the point: enough for three that are not zero, but a picosecond is nothing.
    digits = 2 - math.floor(math.log10(abs(value))) if value else 0
    text = f"{value:.{min(digits, 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def interval_text(low: float, high: float) -> str:
    """`1.9-2.1`; nothing where there is no interval, or one that says nothing."""
    if math.isnan(low) or high > MOST_TELLING * low:
        return ""
    return f"{three_digits(low)}-{three_digits(high)}"


def counted(number: int, noun: str) -> str:
    """`1 thread`, `2 threads`, `12,000 threads`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
