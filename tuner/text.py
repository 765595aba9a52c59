"""Words for people: numbers, percentages, durations, plurals, lists, text that is safe to show.

Durations and percentages are read, too.
"""

import codecs
import difflib
import math
import re
import shlex
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

MOST_TELLING = 100
"""An interval that spans more than this factor, of two worlds say, tells nothing."""
MOST_RATIO = 4
"""A ratio whose interval spans more than this factor is not said as a number."""
UNTOLD = "too uncertain to say"
MOST_CHARACTERS = 1000
"""The most characters of a problem that a message tells in full."""

LONGEST_S, SHORTEST_S = 366 * 24 * 3600.0, 1e-6
"""What a person may give as a duration."""
_SMALL_UNITS = (("s", Decimal(1)), ("ms", Decimal("1e-3")), ("us", Decimal("1e-6")))
_ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control, format, surrogate, and the separators of lines and paragraphs."""
_NAME = re.compile(r"(?<![\w.=])[A-Za-z_][\w.]*(?:_\w+(?:\.\w+)*|(?=\(\)))(?:\(\))?(?![\w=])")
_UNITS_S = {"us": "1e-6", "ms": "1e-3", "s": "1", "m": "60", "min": "60", "h": "3600"}
_LONGEST_TEXT = 100  # of a duration, in characters
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|min|m|h)")


def printable(text: str) -> str:
    """The text for a terminal, a page or a file: what would act instead of being seen is escaped.

    That is every control character but the ends of lines and tabs, marks that turn the direction of
    writing or have no width, and half characters (lone surrogates): `\\x1b`, `\\u202e`, `\\udc80`.
    """
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _ACTING:
        return character
    return character.encode("unicode_escape").decode()


ALIKE = "rpc_tuner.alike"
"""The handler of errors for a stream whose encoding lacks a character."""
_BAR = 10
"""Characters of the bar."""
_ALIKE = str.maketrans("─━│┃·×…→–—•µ█░╸╺\u00a0", "--||-x~>--*u#.-- ") | {  # noqa: RUF001
    ord("≤"): "<=", ord("≥"): ">=",
}  # fmt: skip


def _look_alike(error: UnicodeError) -> tuple[str, int]:
    """ASCII that looks alike for what cannot be encoded, as wide as that; else its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ALIKE)
    return text.encode("ascii", "backslashreplace").decode(), error.end


codecs.register_error(ALIKE, _look_alike)


def progress_bar(share: float) -> str:
    """`███░░░░░░░ 31 % `: how much is done, before what is done now."""
    share = min(1.0, max(0.0, share))
    full = round(share * _BAR)
    return f"{'█' * full}{'░' * (_BAR - full)} {share * 100:.0f} % "


STARTING = f"{progress_bar(0.0)}starting"
"""What stands there from the first moment on, while packages are imported."""


def one_line(text: str) -> str:
    """`printable` text in which the ends of lines and tabs are seen too."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text, of a long one its head and its tail, and how much is left out between them."""
    if (left_out := len(text) - most) <= 0:
        return text
    tail = most // 4
    return f"{text[: most - tail]} [... {left_out:,} characters ...] {text[len(text) - tail :]}"


def three_digits(value: float) -> str:
    """Three significant digits, with commas in a number of five or more: `0.012`, `12,300`.

    Never a power of ten; nothing where the number is unknown.
    """
    if not math.isfinite(value):
        return "" if math.isnan(value) else f"{value}"
    # Digits behind the point: enough for three that are not zero, but a picosecond is nothing.
    digits = min(2 - math.floor(math.log10(abs(value))), 9) if value else 0
    rounded = round(value, digits)
    if digits <= 0:
        return f"{rounded:,.0f}" if abs(rounded) >= 10_000 else f"{rounded:.0f}"
    text = f"{rounded:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def interval_text(low: float, high: float) -> str:
    """`1.9-2.1`; nothing where there is no interval, or one that says nothing."""
    if math.isnan(low) or high > MOST_TELLING * low:
        return ""
    return f"{three_digits(low)}-{three_digits(high)}"


def is_told(low: float, high: float) -> bool:
    """Whether the ends of a ratio's interval are near enough for the ratio to be a number."""
    return low > 0 and high <= MOST_RATIO * low and math.isfinite(high)


def ratio_text(value: float) -> str:
    """Three digits of a ratio: `1.00`, `12.3`, `0.0123`."""
    return f"{value:.2f}" if 0.1 <= value < 9.995 else three_digits(value)


def bound_text(low: float, high: float) -> str:
    """What of a ratio is sure whose interval spans too much for a number: `at least 4.30`, or `at
    most 0.23`; empty where it may be 1."""
    if 1 < low < math.inf and ratio_text(low) != "1.00":
        return f"at least {ratio_text(low)}"
    return f"at most {ratio_text(high)}" if 0 < high < 1 and ratio_text(high) != "1.00" else ""


def ratio_cell(estimate: float, low: float, high: float) -> str:
    """`1.18 (1.09 to 1.28)`; where the interval spans too much for a number `at least 4.30`, `at
    most 0.23`, or `?`; `about 1.18` where there is none, and its ends are NaN."""
    if estimate == low == high:
        return three_digits(estimate)
    if math.isnan(low) and not math.isnan(estimate):
        return f"about {ratio_text(estimate)}"
    if not is_told(low, high):
        return bound_text(low, high) or "?"
    return f"{ratio_text(estimate)} ({ratio_text(low)} to {ratio_text(high)})"


def times_cell(estimate: float, low: float, high: float) -> str:
    """`1.18x (1.09 to 1.28)`, where a bare number could be taken for another value."""
    ratio, space, ends = ratio_cell(estimate, low, high).partition(" (")
    return ratio if ratio == "?" else f"{ratio}x{space}{ends}"


def in_times(ratio: float, low: float, high: float) -> str:
    """`6.5 times (5.6 to 7.4)`, of a ratio of times: so many times as fast; `at least 40 times`
    where the interval of a gain spans too much for a number."""
    number, space, ends = ratio_cell(1 / ratio, 1 / high, 1 / low).partition(" (")
    return f"{number} times{space}{ends}"


def marked_names(text: str, mark: Callable[[str], str]) -> str:
    """The text with the names of functions in it marked: words with an underscore or brackets."""
    return _NAME.sub(lambda found: mark(found[0]), text)


def percent(fraction: float) -> str:
    """`3 %` for 0.03: as given where that is short, else with three digits; never as a power."""
    text = f"{fraction * 100:g}"
    return f"{text if len(text) <= 5 and 'e' not in text else three_digits(fraction * 100)} %"


def whole_percent(fraction: float) -> str:
    """`59 %` for 0.5921."""
    return percent(round(fraction, 2))


def share(fraction: float) -> str:
    """`12.3 %` for 0.12345: a measured share, to the tenth; nothing where it is unknown."""
    return "" if math.isnan(fraction) else f"{three_digits(round(fraction * 100, 1))} %"


def distance(log_ratio: float) -> str:
    """How far one is behind another: `31 %`, and from twice as much on `a factor of 26.6`."""
    ratio = math.exp(log_ratio)
    return share(ratio - 1) if ratio < 2 else f"a factor of {three_digits(ratio)}"


def decimal(value: float) -> str:
    """Three digits, none of them beyond the thousandths; nothing where the number is unknown."""
    return three_digits(round(value, 3))


def plain_number(value: float) -> str:
    """All digits of a tick or of a parameter, never as a power of ten: `1250000`, `0.00002`."""
    return f"{value:.12f}".rstrip("0").rstrip(".")


def plural(number: int, noun: str) -> str:
    """`1 thread`, `2 threads`, `12,000 threads`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """`90 s` as `1m30s`, `42.3 s` as `42s`; below ten seconds `3s` and `3.2s`; `264ms`, `12us`."""
    if 5e-7 <= seconds < 9.995e-4:
        return f"{three_digits(round(seconds * 1e6, 1))}us"
    if 9.995e-4 <= seconds < 0.9995:
        return f"{three_digits(round(seconds * 1e3, 1))}ms"
    if seconds < 9.95:
        return f"{f'{seconds:.1f}'.removesuffix('.0')}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m"


def exact_duration(seconds: float) -> str:
    """`5ms`, or `0.25ms`: in the largest unit up to a second that is not more than it, exactly."""
    exact = Decimal(repr(seconds))
    unit, size = next((each for each in _SMALL_UNITS if exact >= each[1]), _SMALL_UNITS[-1])
    return f"{(exact / size).normalize():f}{unit}"


def rough_duration(seconds: float) -> str:
    """A forecast: `40s`, `2m10s`, `25m`, `3h`, `more than a day`."""
    if seconds >= 24 * 3600:
        return "more than a day"
    units = ((60, 5), (600, 10), (3600, 60), (24 * 3600, 1800))
    step = next(step for limit, step in units if seconds < limit)
    return duration(step * max(1, math.ceil(seconds / step)))


def parse_duration_s(raw: object) -> float:
    """Seconds in `60s`, `500ms`, `20us`, `2m`, `1h`, `1m30s`, or a bare number of seconds;
    ValueError for anything else, and for a duration that is not above zero, or absurd."""
    try:
        seconds = _duration_s(raw)
    except OverflowError:
        seconds = float("inf")
    if not seconds > 0:
        raise ValueError(f"must be longer than zero, got {raw}")
    if seconds > LONGEST_S:
        raise ValueError(f"must be at most a year, got {raw}")
    if seconds < SHORTEST_S:
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


def listed(items: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`; nothing where there are none."""
    *most, final = [*items] or [""]
    return f"{', '.join(most)} {last} {final}" if most else final


def first_of(items: Sequence[str], most: int, rest: str = "", separator: str = ", ") -> str:
    """`a, b, 3 more`: of many items the first `most`; `rest` says what the others are."""
    more = len(items) - most
    tail = [f"{more} more {rest}".rstrip()] if more > 0 else []
    return separator.join([*items[:most], *tail])


def command(name: str, *words: str) -> str:
    """A command of this tool for a shell, spelled as it can be typed here.

    `rpc-tuner search --resume` where that script is on the PATH, else `python -m tuner.search ...`.
    """
    is_there = shutil.which("rpc-tuner") is not None
    known = ["rpc-tuner", name] if is_there else ["python", "-m", f"tuner.{name}"]
    return shlex.join([*known, *words])


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """The tail of an unknown-name message: the nearest right name if one is near, else all."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"
