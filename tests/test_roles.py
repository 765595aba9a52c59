import pytest

from tuner.roles import role_of


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("trainer3", "trainer"), ("ps_0", "ps"), ("worker-1", "worker"), ("agent", "agent"),
        ("3", "rank"), ("node12:gpu0", "nodegpu"), ("Observer2", "Observer"),
    ],
)  # fmt: skip
def test_the_role_is_the_name_without_its_digits(name: str, role: str) -> None:
    assert role_of(name) == role


def test_the_first_pattern_that_matches_the_whole_name_decides() -> None:
    patterns = [("ps", "parameter_server.*"), ("chief", "trainer0"), ("late", "trainer.*")]
    assert role_of("parameter_server_1", patterns) == "ps"
    assert role_of("trainer0", patterns) == "chief"
    assert role_of("trainer1", patterns) == "late"
    assert role_of("a_trainer1", patterns) == "a_trainer"
