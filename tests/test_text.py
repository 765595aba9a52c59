"""Numbers and words for people: they are read at a glance, or are not there."""

import math
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.specs import assert_refused
from tuner.text import (
    ALIKE,
    decimal,
    did_you_mean,
    distance,
    duration,
    first_of,
    in_times,
    interval_text,
    is_told,
    listed,
    one_line,
    parse_duration_s,
    parse_fraction,
    percent,
    plain_number,
    plural,
    printable,
    ratio_text,
    share,
    shortened,
    three_digits,
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (three_digits, {
            123_456.0: "123,000", 9996.0: "10,000", 1234.5: "1230", 100.0: "100", 99.96: "100",
            12.34: "12.3", 2.0: "2", 0.5: "0.5", 0.0: "0",
            0.01234: "0.0123", 1.65e-6: "0.00000165", 1e-15: "0", -3.14159: "-3.14", math.nan: "",
        }),
        (percent, {
            0.03: "3 %", 0.95: "95 %", 0.9999: "99.99 %", 1.5: "150 %", 0.15234: "15.2 %",
            123.0: "12300 %", 1e-9: "0.0000001 %", 0.0: "0 %", 12345.678: "1,230,000 %",
        }),
        (share, {0: "0 %", 0.0004: "0 %", 0.0316: "3.2 %", 1: "100 %", 1.2345: "123 %",
                 math.nan: ""}),
        (decimal, {12.345: "12.3", 0.0004: "0", 0.0016: "0.002", 9991.0: "9990", math.nan: ""}),
        (ratio_text, {0.998: "1.00", 1.003: "1.00", 26.62: "26.6", 0.0514: "0.0514"}),
        (plain_number, {1_250_000.0: "1250000", 102.5: "102.5", 2e-5: "0.00002", 0.1 + 0.2: "0.3",
                        16: "16"}),
        (distance, {math.log(1.31): "31 %", math.log(1.9996): "100 %",
                    math.log(26.56): "a factor of 26.6"}),
        (lambda number: plural(int(number), "world"),
         {0: "0 worlds", 1: "1 world", 12000: "12,000 worlds"}),
        (duration, {
            0: "0s", 4e-7: "0s", 4.26e-6: "4.3us", 0.00004: "40us", 0.0009996: "1ms",
            0.04: "40ms", 0.0468: "46.8ms", 0.2641: "264ms", 0.9996: "1s",
            2.96: "3s", 3.2: "3.2s", 9.94: "9.9s", 9.96: "10s", 42.3: "42s", 59.6: "1m", 60: "1m",
            61: "1m01s", 90: "1m30s", 3599.6: "1h00m", 3600: "1h00m", 5430: "1h30m",
            360000: "100h00m",
        }),
    ],
)  # fmt: skip
def test_numbers_as_people_read_them_never_as_a_power_of_ten(
    words: Callable[[float], str], said: dict[float, str]
) -> None:
    assert {number: words(number) for number in said} == said


def test_an_interval_that_says_nothing_is_not_shown() -> None:
    ends = [(1.9, 2.1), (math.nan, math.nan), (1.65e-6, 4955000.0), (1.2, math.inf)]
    assert [interval_text(low, high) for low, high in ends] == ["1.9-2.1", "", "", ""]


def test_lists_are_parts_of_sentences() -> None:
    assert [listed(items) for items in ([], ["a"], ["a", "b"])] == ["", "a", "a and b"]
    assert listed(["a", "b", "c"], last="or") == "a, b or c"
    assert [first_of([*items], 2) for items in ("", "ab", "abcd")] == ["", "a, b", "a, b, 2 more"]
    more = first_of(["a", "b"], 1, rest="that are slower", separator="; ")
    assert more == "a; 1 more that are slower"
    known = ("num_worker_threads", "rpc_timeout")
    assert did_you_mean("num_workers", known) == "; did you mean num_worker_threads?"
    assert did_you_mean("zzz", known) == "; known: num_worker_threads, rpc_timeout"


def test_a_ratio_is_told_whose_ends_are_near() -> None:
    told = {
        (0.5, 2.0): True, (0.5, 2.1): False, (0.0, 1.0): False, (1.0, math.inf): False,
        (math.inf, math.inf): False, (math.nan, math.nan): False,
    }  # fmt: skip
    assert {ends: is_told(*ends) for ends in told} == told


@given(st.floats(min_value=0.1, max_value=1e6))
def test_a_formatted_duration_reads_back_to_its_precision(seconds: float) -> None:
    precision_s = 0.051 if seconds < 10 else 0.51 if seconds < 3599 else 60
    assert parse_duration_s(duration(seconds)) == pytest.approx(seconds, abs=precision_s)


def test_what_would_act_is_shown_instead() -> None:
    shown = {
        "plain, café, 日本, a\xa0b": "plain, café, 日本, a\xa0b",
        "a\n\tb": "a\n\tb",
        "a\r\nb\rc": "a\nb\\rc",
        "\x1b[31mred\x1b]0;title\x07": r"\x1b[31mred\x1b]0;title\x07",
        "\x9b2J\x7f\0": r"\x9b2J\x7f\x00",
        "\u202egnp.exe\u2066\u200b\ufeff": r"\u202egnp.exe\u2066\u200b\ufeff",
        "\udc80\ud83d": r"\udc80\ud83d",
        "a\u2028b\U000e0041": r"a\u2028b\U000e0041",
    }
    assert {text: printable(text) for text in shown} == shown


@given(st.text(st.characters()))
def test_nothing_that_acts_is_left_in_any_text(text: str) -> None:
    shown = printable(text)
    shown.encode()
    kinds = {unicodedata.category(each) for each in shown.replace("\n", "").replace("\t", "")}
    assert kinds.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    assert printable(shown) == shown
    assert "\n" not in one_line(text)


def test_long_text_keeps_its_head_and_its_tail() -> None:
    assert shortened("x" * 1000) == "x" * 1000
    assert shortened("head" + "x" * 5000 + "tail", 40) == (
        "head" + "x" * 26 + " [... 4,968 characters ...] " + "x" * 6 + "tail"
    )


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ("60s", 60.0), ("500ms", 0.5), ("20us", 2e-5), ("2m", 120.0), ("2min", 120.0),
        ("1h", 3600.0), ("1m30s", 90.0), ("1.5m", 90.0), (" 60S ", 60.0), ("45", 45.0),
        (0.25, 0.25), (1e-6, 1e-6),
    ],
)  # fmt: skip
def test_durations_as_people_write_them(raw: object, seconds: float) -> None:
    assert parse_duration_s(raw) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("raws", "told"),
    [
        (["soon", "", "60 seconds", "s", "1m30", "1m 30s", True, None, []],
         "must be a duration such as 60s, 2m or 1m30s, got {raw!r}"),
        (["0s", 0, "0m0s", -1, "-3", "nan"], "must be longer than zero, got {raw}"),
        (["inf", float("inf"), 1e300, "99999h", 10**400, "9" * 99 + "s"],
         "must be at most a year, got {raw}"),
        (["9" * 10**6 + "x"], "must be a duration such as 60s, got 1,000,001 characters"),
        ([1e-300], "must be at least a microsecond, got 1e-300"),
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused(raws: list[object], told: str) -> None:
    assert_refused(parse_duration_s, raws, told)


def test_fractions_as_people_write_them() -> None:
    raws = ("3%", "0.03", 0.03, " 3 % ", "3.0%")
    assert [parse_fraction(raw) for raw in raws] == [pytest.approx(0.03)] * len(raws)
    share = "must lie between 0% and 100%, got {raw} (3% is written 3% or 0.03)"
    assert_refused(parse_fraction, ["3", 3, "0%", "100%", 0, 1, "-3%", "nan"], share)
    percentage = "must be a percentage such as 3%, got {raw!r}"
    assert_refused(parse_fraction, ["little", "", "%", "3%%", None], percentage)


def test_a_gain_that_spans_too_much_for_a_number_is_told_by_its_least() -> None:
    assert in_times(0.1, 0.08, 0.125) == "10 times (8.00 to 12.5)"
    assert in_times(0.01, 0.001, 0.025) == "at least 40 times"
    assert in_times(0.5, 0.01, 1.5) == "? times"


def test_what_an_encoding_lacks_looks_alike_and_is_as_wide() -> None:
    assert "── a · b… 1.2×".encode("ascii", ALIKE) == b"-- a - b~ 1.2x"  # noqa: RUF001
    assert "я §".encode("ascii", ALIKE) == rb"\u044f \xa7"
    assert "§ ─".encode("latin-1", ALIKE) == b"\xa7 -"
