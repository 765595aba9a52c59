"""The error that a served function raised is found in what its caller is told."""

from tuner.torch_private.served_error import served_error

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
