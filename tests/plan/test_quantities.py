import pytest

from tests.plan.specs import assert_refused
from tuner.plan.quantities import parse_duration_s, parse_fraction


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
