import pytest

from tuner.patterns import pattern_problem


@pytest.mark.parametrize("text", ["", "a.*", "loss: ([0-9.]+)", "[[a]", "\udc80"])
def test_a_regular_expression_has_no_problem(text: str) -> None:
    assert pattern_problem(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("(", "missing ), unterminated subpattern at position 0"),
        ("(" * 100_000, "nested too deeply"),
        ("(?\udc80)", r"unknown extension ?\udc80 at position 1"),
        ("a{99999999999}", "the repetition number is too large"),
    ],
)
def test_the_problem_is_told(text: str, problem: str) -> None:
    assert pattern_problem(text) == problem
