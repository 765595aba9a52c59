"""What a program raises again and again is reported more and more seldom: runs last for days."""

import time

import pytest

from tuner.torch_private.program_wrappers import RaisedErrors

SECONDS_OF_A_DAY = 86_400


@pytest.mark.parametrize(("kinds", "least", "most"), [(1, 17, 17), (SECONDS_OF_A_DAY, 30, 60)])
def test_an_error_of_each_second_is_reported_some_times_in_a_day(
    monkeypatch: pytest.MonkeyPatch, kinds: int, least: int, most: int
) -> None:
    """Also where no error is like another."""
    now_s, sent, shown = 0.0, list[object](), list[str]()
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    raised = RaisedErrors(lambda event, **facts: sent.append((event, facts["error"])), lambda: "")
    show = raised.reporting(shown.append, "a call that {name} served")
    for second in range(SECONDS_OF_A_DAY):
        now_s += 1.0
        try:
            raise KeyError(second % kinds)
        except KeyError:
            show("text")
            show("text")
    assert len(shown) == 2 * SECONDS_OF_A_DAY
    assert sent[0] == ("raised", "KeyError: 0 (in a call that a process that is no rank served)")
    assert least <= len(sent) <= most
    assert len({*sent}) == (1 if kinds == 1 else len(sent))
