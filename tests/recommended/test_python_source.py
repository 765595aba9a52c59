"""Source is laid out as a formatter would."""

import ast
from typing import Any

import pytest

from tuner.recommended.python_module import WIDTH, literal, table


@pytest.mark.parametrize(
    ("value", "source"),
    [
        (3, "3"),
        (2.5, "2.5"),
        ("worker0", '"worker0"'),
        ("it's", '"it\'s"'),
        ('the "boss"', "'the \"boss\"'"),
        ("a\\b\n", '"a\\\\b\\n"'),
        ("wörker😀", '"wörker😀"'),
        (["shm", "uv"], '["shm", "uv"]'),
        (("worker0", "caller"), '("worker0", "caller")'),
        ({"w": {"cuda:0": "cuda:1"}}, '{"w": {"cuda:0": "cuda:1"}}'),
    ],
)
def test_a_literal_reads_back(value: Any, source: str) -> None:
    assert str(literal(value)) == source
    assert ast.literal_eval(source) == value


def test_code_that_fits_stays_on_one_line() -> None:
    assert literal(["a", "b"]).labelled("names = ").lines() == ['names = ["a", "b"]']


def test_spread_code_has_a_line_for_each_part() -> None:
    assert literal(["a", "b"]).labelled("names = ").lines(spread=True) == [
        "names = [", '    "a",', '    "b",', "]",
    ]  # fmt: skip


def test_long_code_is_broken_from_the_outside_in() -> None:
    values = {"short": ["a"], "long": ["x" * 40, "y" * 40]}
    lines = table((key, literal(value)) for key, value in values.items()).lines()
    assert lines == [
        "{",
        '    "short": ["a"],',
        '    "long": [',
        f'        "{"x" * 40}",',
        f'        "{"y" * 40}",',
        "    ],",
        "}",
    ]
    assert max(map(len, lines)) <= WIDTH
    assert ast.literal_eval("\n".join(lines)) == values
