import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.plan.quantities import parse_duration_s, parse_fraction


@pytest.mark.parametrize(
    ("raw", "seconds"),
    [
        ("60s", 60.0),
        ("500ms", 0.5),
        ("2m", 120.0),
        ("2min", 120.0),
        ("1h", 3600.0),
        ("1m30s", 90.0),
        ("1h30m", 5400.0),
        ("1.5m", 90.0),
        (" 60S ", 60.0),
        ("45", 45.0),
        (45, 45.0),
        (0.25, 0.25),
    ],
)
def test_durations_as_people_write_them(raw: object, seconds: float) -> None:
    assert parse_duration_s(raw) == pytest.approx(seconds)


@pytest.mark.parametrize("raw", ["soon", "", "60 seconds", "s", "1m30", "1m 30s", True, None, []])
def test_what_is_no_duration_is_refused_with_an_example(raw: object) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 60s, 2m or 1m30s") as caught:
        parse_duration_s(raw)
    assert str(caught.value).endswith(f", got {raw!r}")


@pytest.mark.parametrize("raw", ["0s", 0, "0m0s", -1, "-3", "nan"])
def test_a_duration_is_longer_than_zero(raw: object) -> None:
    with pytest.raises(ValueError, match="must be longer than zero") as caught:
        parse_duration_s(raw)
    assert str(caught.value) == f"must be longer than zero, got {raw}"


@pytest.mark.parametrize(
    "raw", ["inf", float("inf"), 1e300, "1e300", "99999h", 10**400, "9" * 99 + "s"]
)
def test_a_duration_is_at_most_a_year(raw: object) -> None:
    with pytest.raises(ValueError, match="must be at most a year"):
        parse_duration_s(raw)


@pytest.mark.parametrize("raw", ["9" * 10**6 + "x", [[0] * 1000]])
def test_endless_text_is_no_duration(raw: object) -> None:
    with pytest.raises(ValueError, match=r"must be a duration such as 60s, got [\d,]+ characters$"):
        parse_duration_s(raw)


def test_a_duration_is_at_least_a_microsecond() -> None:
    assert parse_duration_s(1e-6) == 1e-6
    with pytest.raises(ValueError, match="must be at least a microsecond, got 1e-300"):
        parse_duration_s(1e-300)


@given(st.text())
def test_text_is_a_positive_duration_or_a_value_error(text: str) -> None:
    try:
        seconds = parse_duration_s(text)
    except ValueError:
        return
    assert 0 < seconds < math.inf


@pytest.mark.parametrize(("raw", "fraction"), [("3%", 0.03), ("0.03", 0.03), (0.5, 0.5),
                                               (" 95 % ", 0.95), ("0.1%", 0.001)])  # fmt: skip
def test_fractions_as_people_write_them(raw: object, fraction: float) -> None:
    assert parse_fraction(raw) == pytest.approx(fraction)


@pytest.mark.parametrize("raw", ["3", 3, "0%", "100%", 0, 1, "-3%", "nan"])
def test_a_fraction_lies_between_0_and_1(raw: object) -> None:
    with pytest.raises(ValueError, match="must lie between") as caught:
        parse_fraction(raw)
    expected = f"must lie between 0% and 100%, got {raw} (3% is written 3% or 0.03)"
    assert str(caught.value) == expected


@pytest.mark.parametrize("raw", ["little", "", "%", "3%%", None])
def test_what_is_no_fraction_is_refused_with_an_example(raw: object) -> None:
    with pytest.raises(ValueError, match="must be a percentage such as 3%") as caught:
        parse_fraction(raw)
    assert str(caught.value) == f"must be a percentage such as 3%, got {raw!r}"
