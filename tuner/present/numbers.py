"""Numbers as people read them."""

import math


def three_digits(value: float) -> str:
    """Three significant digits, never as a power of ten; nothing where the number is unknown."""
    if math.isnan(value):
        return ""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
