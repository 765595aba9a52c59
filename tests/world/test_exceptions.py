"""The error that a served function raised is found, and what is raised often is told seldom."""

import time

import pytest

from tuner.torch_private.exceptions import MOST_TEXT, error_text, served_error
from tuner.torch_private.program_wrappers import RaisedErrors

AT = "\n\nAt:\n  /site-packages/torch/distributed/rpc/internal.py(236): _handle_exception\n\n"
INNER = (
    "ValueError: On WorkerInfo(id=2, name=w2):\nValueError('bad row 7')\n"
    'Traceback (most recent call last):\n  File "main.py", line 2, in inner\n'
    '    raise ValueError("bad row 7")\nValueError: bad row 7\n' + AT
)

KEY = (
    r"KeyError: 'On WorkerInfo(id=1, name=w1):\nKeyError(\'a\')\nTraceback (most recent call last):"
    r"""\n  File "main.py", line 4, in plain\n    raise KeyError("a")\nKeyError: \'a\'\n'"""
) + AT
"""Its text is a `repr`, in a single line."""
BAD_ROW = "ValueError: bad row 7 (in a call that w2 served)"
NO_KEY = "KeyError: 'a' (in a call that w1 served)"


def served_by_w1(inner: str) -> str:
    return (
        "ValueError: On WorkerInfo(id=1, name=w1):\nValueError('...')\n"
        f'Traceback (most recent call last):\n  File "main.py", line 9, in outer\n{inner}\n{AT}'
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (INNER, BAD_ROW),
        (f"loading\nTraceback (most recent call last):\nValueError: {INNER}", BAD_ROW),
        # Of nested calls it is that of the innermost; of several lines, the first.
        (served_by_w1(f"ValueError: {INNER}"), BAD_ROW),
        (INNER.replace("row 7\n", "row 7\nHint: none\n"), BAD_ROW),
        (INNER.replace('("bad row 7")', '("bad row 7\nHint: none")'), BAD_ROW),
        # The lines of a key error are escaped.
        (KEY, NO_KEY),
        (served_by_w1(f"RuntimeError: {KEY}"), NO_KEY),
        # What ends with something else is none.
        ("", None),
        ("ValueError: no such file", None),
        (f"{INNER}\nRuntimeError: later", None),
        ("On WorkerInfo(id=1, name=a):\n_handle_exception", None),
    ],
)
def test_the_error_is_that_of_the_served_function(text: str, error: str | None) -> None:
    assert served_error(text) == error


def test_a_key_error_is_found_in_a_to_here() -> None:
    for text in (KEY, KEY.removeprefix("KeyError: ").removesuffix(AT)):
        assert error_text(RuntimeError(text)) == NO_KEY


@pytest.mark.parametrize("text", ["x" * MOST_TEXT, "\udc80" * MOST_TEXT, "row"])
def test_a_text_is_never_longer_than_what_is_read(text: str) -> None:
    """An event with a longer text is no event: its failure would be lost."""
    where = " (in a thread of w1)"
    for error in (ValueError(text), SystemExit(text), ValueError(INNER.replace("bad row 7", text))):
        assert len(error_text(error, where)) <= MOST_TEXT
    assert error_text(ValueError(text), where).endswith(where)


SECONDS_OF_A_DAY = 86_400


# Also where no error is like another.
@pytest.mark.parametrize(("kinds", "least", "most"), [(1, 17, 17), (SECONDS_OF_A_DAY, 30, 60)])
def test_an_error_of_each_second_is_reported_some_times_in_a_day(
    monkeypatch: pytest.MonkeyPatch, kinds: int, least: int, most: int
) -> None:
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
