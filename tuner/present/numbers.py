"""Numbers as people read them."""

import math


def three_digits(value: float) -> str:
    """Three significant digits, never as a power of ten; nothing where the number is unknown."""
    if math.isnan(value):
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def counted(number: int, noun: str) -> str:
    """`1 thread`, `2 threads`, `12,000 threads`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
