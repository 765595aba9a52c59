"""Numbers and words for people: they are read at a glance, or are not there."""

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.plan.quantities import parse_duration_s
from tuner.text import (
    decimal,
    did_you_mean,
    distance,
    duration,
    first_of,
    interval_text,
    is_told,
    listed,
    one_line,
    percent,
    plain_number,
    plural,
    printable,
    share,
    shortened,
    three_digits,
)


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


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.03, "3 %"), (0.95, "95 %"), (0.9999, "99.99 %"), (1.5, "150 %"), (0.15234, "15.2 %"),
        (123.0, "12300 %"), (1e-9, "0.0000001 %"), (0.0, "0 %"), (12345.678, "1,234,568 %"),
    ],
)  # fmt: skip
def test_a_percentage_is_never_a_power_of_ten(fraction: float, text: str) -> None:
    assert percent(fraction) == text


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (0.5, 2.0, True), (0.5, 2.1, False), (0.0, 1.0, False), (1.0, math.inf, False),
        (math.inf, math.inf, False), (math.nan, math.nan, False),
    ],
)  # fmt: skip
def test_a_ratio_is_told_whose_ends_are_near(low: float, high: float, told: bool) -> None:
    assert is_told(low, high) == told


def test_a_distance_is_a_percentage_below_twice() -> None:
    found = [distance(math.log(ratio)) for ratio in (1.31, 1.9996, 26.56)]
    assert found == ["31 %", "100 %", "a factor of 26.6"]


def test_a_share_is_a_percentage_to_the_tenth() -> None:
    assert [share(fraction) for fraction in (0, 0.0004, 0.0316, 1, 1.5, math.nan)] == [
        "0 %", "0 %", "3.2 %", "100 %", "150 %", "",
    ]  # fmt: skip


def test_a_decimal_ends_with_the_thousandths() -> None:
    assert [decimal(value) for value in (12.345, 0.0004, 0.0016, 9999.0, math.nan)] == [
        "12.3", "0", "0.002", "9999", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_250_000.0, "1250000"), (102.5, "102.5"), (2e-5, "0.00002"), (0.1 + 0.2, "0.3"), (16, "16")],
)
def test_a_plain_number_has_all_its_digits(value: float, text: str) -> None:
    assert plain_number(value) == text


def test_a_plural_has_its_s() -> None:
    assert [plural(number, "world") for number in (0, 1, 12000)] == [
        "0 worlds", "1 world", "12,000 worlds",
    ]  # fmt: skip


def test_a_list_is_a_part_of_a_sentence() -> None:
    assert listed([]) == ""
    assert listed(["a"]) == "a"
    assert listed(["a", "b"]) == "a and b"
    assert listed(["a", "b", "c"], last="or") == "a, b or c"


def test_of_many_items_the_first_ones_stand_and_the_others_are_counted() -> None:
    assert first_of([], 2) == ""
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of(["a", "b", "c", "d"], 2) == "a, b, 2 more"
    assert first_of(["a", "b"], 1, rest="that are slower", separator="; ") == (
        "a; 1 more that are slower"
    )


def test_an_unknown_word_gets_the_nearest_known_one_or_all() -> None:
    assert did_you_mean("num_workers", ("num_worker_threads", "rpc_timeout")) == (
        "; did you mean num_worker_threads?"
    )
    assert did_you_mean("zzz", ("caller", "server")) == "; known: caller, server"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.00004, "0s"),
        (0.04, "40ms"),
        (0.0468, "46.8ms"),
        (0.2641, "264ms"),
        (0.9996, "1s"),
        (2.96, "3s"),
        (3.2, "3.2s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (42.3, "42s"),
        (59.6, "1m"),
        (60, "1m"),
        (61, "1m01s"),
        (90, "1m30s"),
        (3599.6, "1h00m"),
        (3600, "1h00m"),
        (5430, "1h30m"),
        (360000, "100h00m"),
    ],
)
def test_durations_as_people_read_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(min_value=0.1, max_value=1e6))
def test_a_formatted_duration_reads_back_to_its_precision(seconds: float) -> None:
    precision_s = 0.051 if seconds < 10 else 0.51 if seconds < 3599 else 60
    assert parse_duration_s(duration(seconds)) == pytest.approx(seconds, abs=precision_s)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, café, 日本, a\xa0b", "plain, café, 日本, a\xa0b"),
        ("a\n\tb", "a\n\tb"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\x1b[31mred\x1b]0;title\x07", r"\x1b[31mred\x1b]0;title\x07"),
        ("\x9b2J\x7f\0", r"\x9b2J\x7f\x00"),
        ("\u202egnp.exe\u2066\u200b\ufeff", r"\u202egnp.exe\u2066\u200b\ufeff"),
        ("\udc80\ud83d", r"\udc80\ud83d"),
        ("a\u2028b\U000e0041", r"a\u2028b\U000e0041"),
    ],
)
def test_what_would_act_is_shown_instead(text: str, shown: str) -> None:
    assert printable(text) == shown


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
