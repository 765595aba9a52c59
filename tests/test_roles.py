import pytest

from tuner.roles import pattern_problem, role_of


def test_the_role_is_the_name_without_its_digits() -> None:
    roles = {
        "trainer3": "trainer", "ps_0": "ps", "worker-1": "worker", "agent": "agent", "3": "rank",
        "node12:gpu0": "nodegpu", "Observer2": "Observer",
    }  # fmt: skip
    assert {name: role_of(name) for name in roles} == roles


def test_the_first_pattern_that_matches_the_whole_name_decides() -> None:
    patterns = [("ps", "parameter_server.*"), ("chief", "trainer0"), ("late", "trainer.*")]
    names = ["parameter_server_1", "trainer0", "trainer1", "a_trainer1"]
    assert [role_of(name, patterns) for name in names] == ["ps", "chief", "late", "a_trainer"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", None),
        ("loss: ([0-9.]+)", None),
        ("[[a]", None),
        ("\udc80", None),
        ("(", "missing ), unterminated subpattern at position 0"),
        ("(" * 100_000, "nested too deeply"),
        ("(?\udc80)", r"unknown extension ?\udc80 at position 1"),
        ("a{99999999999}", "the repetition number is too large"),
    ],
)
def test_the_problem_of_a_pattern_is_told(text: str, problem: str | None) -> None:
    assert pattern_problem(text) == problem
