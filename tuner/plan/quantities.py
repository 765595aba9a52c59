"""Durations and fractions as people write them."""

import re
from decimal import Decimal

_UNITS_S = {"us": "1e-6", "ms": "1e-3", "s": "1", "m": "60", "min": "60", "h": "3600"}
MOST_S = 366 * 24 * 3600.0
LEAST_S = 1e-6
_LONGEST_TEXT = 100
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|min|m|h)")


def parse_duration_s(raw: object) -> float:
    """Seconds in `60s`, `500ms`, `20us`, `2m`, `1h`, `1m30s`, or a bare number of seconds;
    ValueError for anything else, and for a duration that is not above zero, or absurd."""
    try:
        seconds = _duration_s(raw)
    except OverflowError:
        seconds = float("inf")
    if not seconds > 0:
        raise ValueError(f"must be longer than zero, got {raw}")
    if seconds > MOST_S:
        raise ValueError(f"must be at most a year, got {raw}")
    if seconds < LEAST_S:
        raise ValueError(f"must be at least a microsecond, got {raw}")
    return seconds


def _duration_s(raw: object) -> float:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return float(raw)
    text = str(raw).strip().lower()
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"must be a duration such as 60s, got {len(text):,} characters")
    try:
        return float(text)
    except ValueError:
        pass
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"must be a duration such as 60s, 2m or 1m30s, got {raw!r}")
    return float(sum(Decimal(number) * Decimal(_UNITS_S[unit]) for number, unit in parts))


def parse_fraction(raw: object) -> float:
    """The fraction in `3%` or `0.03`. Raises ValueError outside 0 to 1, both excluded."""
    text = str(raw).strip()
    try:
        fraction = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ValueError(f"must be a percentage such as 3%, got {raw!r}") from None
    if not 0 < fraction < 1:
        raise ValueError(f"must lie between 0% and 100%, got {raw} (3% is written 3% or 0.03)")
    return fraction
