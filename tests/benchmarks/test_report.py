"""What `make bench` prints."""

from dataclasses import replace

import pytest

from tests.benchmarks.report import Bar, Comparison, print_comparisons
from tuner.decide.statistics import Interval

TUNED = Comparison(
    name="tuned", ours="uv", theirs="shm", ours_value=2.0, theirs_value=2.26,
    bars=(Bar(not_worse=True),), interval=Interval(1.13, 1.06, 1.2),
)  # fmt: skip
NOTE = "?: too uncertain to say."


def printed(each: Comparison, capsys: pytest.CaptureFixture[str]) -> str:
    print_comparisons([each])
    return capsys.readouterr().out


def test_a_ratio_has_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(TUNED, capsys)
    assert "1.13 (1.06 to 1.20)" in text
    assert "not slower beyond the noise: reached" in text
    assert NOTE not in text


def test_a_ratio_not_known_to_a_factor_of_4_is_no_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(replace(TUNED, interval=Interval(1.13, 0.0, 2.23)), capsys)
    assert "1.13" not in text
    assert NOTE in text


def test_a_ratio_without_pairs_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert " 1.1 " in printed(replace(TUNED, interval=None), capsys)
