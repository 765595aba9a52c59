"""What a program raises again and again is reported more and more seldom: runs last for days."""

import time

import pytest

from tuner.torch_private.program_wrappers import RaisedErrors

SECONDS_OF_A_DAY = 86_400


class Reports:
    """Notes what a process reports."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, event: str, **facts: object) -> None:
        assert event == "raised"
        self.sent.append(facts["error"])


def raised_in_a_day(monkeypatch: pytest.MonkeyPatch, *, kinds: int) -> list[object]:
    """The reports of a process in which a served call raises each second."""
    now_s, reports = 0.0, Reports()
    shown: list[str] = []
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    raised = RaisedErrors(reports.send, lambda: "")
    show = raised.reporting(shown.append, "a call that {name} served")
    for second in range(SECONDS_OF_A_DAY):
        now_s += 1.0
        try:
            raise KeyError(second % kinds)
        except KeyError:
            show("text")
            show("text")
    assert len(shown) == 2 * SECONDS_OF_A_DAY
    return reports.sent


def test_an_error_of_each_second_is_reported_some_times_in_a_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = raised_in_a_day(monkeypatch, kinds=1)
    assert sent == ["KeyError: 0 (in a call that a process that is no rank served)"] * 17


def test_the_number_of_reports_is_bounded_where_no_error_is_like_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = raised_in_a_day(monkeypatch, kinds=SECONDS_OF_A_DAY)
    assert 30 < len(sent) < 60
    assert len({*sent}) == len(sent)
