"""The error that a served function raised is found in what its caller gets."""

import pytest

from tuner.torch_private.exceptions import MOST_TEXT, error_text, served_error

AT = "\n\nAt:\n  /site-packages/torch/distributed/rpc/internal.py(236): _handle_exception\n\n"
INNER = (
    "ValueError: On WorkerInfo(id=2, name=w2):\nValueError('bad row 7')\n"
    'Traceback (most recent call last):\n  File "main.py", line 2, in inner\n'
    '    raise ValueError("bad row 7")\nValueError: bad row 7\n' + AT
)


def test_the_error_is_that_of_the_served_function() -> None:
    assert served_error(INNER) == "ValueError: bad row 7 (in a call that w2 served)"
    program = f"loading\nTraceback (most recent call last):\nValueError: {INNER}"
    assert served_error(program) == "ValueError: bad row 7 (in a call that w2 served)"


def test_of_nested_calls_it_is_that_of_the_innermost() -> None:
    outer = (
        "ValueError: On WorkerInfo(id=1, name=w1):\nValueError('...')\n"
        'Traceback (most recent call last):\n  File "main.py", line 9, in outer\n'
        f"ValueError: {INNER}\n{AT}"
    )
    assert served_error(outer) == "ValueError: bad row 7 (in a call that w2 served)"


def test_what_ends_with_something_else_is_none() -> None:
    assert served_error("") is None
    assert served_error("ValueError: no such file") is None
    assert served_error(f"{INNER}\nRuntimeError: later") is None
    assert served_error("On WorkerInfo(id=1, name=a):\n_handle_exception") is None


KEY = (
    r"KeyError: 'On WorkerInfo(id=1, name=w1):\nKeyError(\'a\')\nTraceback (most recent call last):"
    r"""\n  File "main.py", line 4, in plain\n    raise KeyError("a")\nKeyError: \'a\'\n'"""
) + AT
"""Its text is a `repr`, in a single line."""


def test_a_key_error_is_read_though_its_lines_are_escaped() -> None:
    line = "KeyError: 'a' (in a call that w1 served)"
    assert served_error(KEY) == line
    assert error_text(RuntimeError(KEY)) == line
    outer = "RuntimeError: On WorkerInfo(id=0, name=w0):\nRuntimeError('...')\nTraceback (most "
    outer += f"recent call last):\n  File 'main.py', line 9\nRuntimeError: {KEY}\n{AT}"
    assert served_error(outer) == line
    to_here = KEY.removeprefix("KeyError: ").removesuffix(AT)
    assert error_text(RuntimeError(to_here)) == line


def test_of_a_message_of_several_lines_it_is_the_first() -> None:
    assert served_error(INNER.replace("row 7\n", "row 7\nHint: none\n")) == served_error(INNER)
    source = INNER.replace('("bad row 7")', '("bad row 7\nHint: none")')
    assert served_error(source) == served_error(INNER)


@pytest.mark.parametrize("text", ["x" * MOST_TEXT, "\udc80" * MOST_TEXT, "row"])
def test_a_text_is_never_longer_than_what_is_read(text: str) -> None:
    """An event with a longer text is no event: its failure would be lost."""
    where = " (in a thread of w1)"
    for error in (ValueError(text), SystemExit(text), ValueError(INNER.replace("bad row 7", text))):
        found = error_text(error, where)
        assert len(found) <= MOST_TEXT
    assert error_text(ValueError(text), where).endswith(where)
