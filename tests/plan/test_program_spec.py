"""The commands of a plan: as words, or as a line that a shell would read."""

import pytest

from tests.known import known
from tuner.plan.draft import draft_plan


def commands(**keys: object) -> tuple[tuple[str, ...], ...]:
    draft = draft_plan(keys)
    assert draft.problems == ()
    return known(draft.program).commands


def test_a_line_is_read_as_a_shell_reads_it() -> None:
    words, other = ("python", "main.py", "--name", "a b"), ("python", "node.py")
    assert commands(program=list(words)) == (words,)
    assert commands(program="python main.py --name 'a b'") == (words,)
    assert commands(programs=["python node.py", list(words)]) == (other, words)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"program": []}, 'program must be a command, such as "python main.py" or ["python", '),
        ({"program": ""}, "program must be a command"),
        ({"program": ["python", 8]}, "got ['python', 8]"),
        ({"program": "python 'main.py"}, "is no command: No closing quotation"),
        ({"programs": ["python node.py", 3]}, "programs must be a command"),
        ({"programs": 3}, "programs must be a command"),
        ({"programs": []}, "programs must name at least one command"),
    ],
)
def test_what_is_no_command_is_refused(keys: dict[str, object], problem: str) -> None:
    (told,) = draft_plan(keys).problems
    assert problem in told
