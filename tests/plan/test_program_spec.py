"""The commands of a plan: as words, or as a line that a shell would read."""

import pytest

from testing.known import known
from tests.fake_program import COMMAND, FakeProgramLauncher
from tuner.plan.draft import draft_plan
from tuner.plan.program_spec import ProgramSpec


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


def seen(*functions: dict[str, int], active_s: tuple[float, ...] = ()) -> ProgramSpec:
    """A program whose first runs called these."""
    calls = tuple(sum(function.values()) for function in functions)
    spec = FakeProgramLauncher(lambda config: 1.0).subject_of(draft_plan({"program": COMMAND}))
    update = {"calls": calls, "functions": functions, "active_s": active_s, "run_s": (2.0,) * 2}
    return spec.model_copy(update=update)


def test_the_time_of_a_run_is_compared_where_only_polling_varies() -> None:
    spec = seen({"size": 735, "push": 100}, {"size": 1838, "push": 100})
    assert spec.work == ("push",)
    assert spec.objective_name == "rpc_active_s"
    assert spec.model_copy(update={"shuts_down": False}).objective_name == "wall_s"


def test_a_few_calls_that_set_up_are_no_work_where_time_goes_with_the_others() -> None:
    """An agent that learns takes as many steps as it needs, and makes its observers once."""
    runs = {"Observer": 2, "select_action": 300}, {"Observer": 2, "select_action": 450}
    assert seen(*runs, active_s=(3.1, 4.4)).objective_name == "ms_per_call"
    # But not where it lasts as long whatever their number.
    assert seen(*runs, active_s=(3.1, 3.2)).objective_name == "rpc_active_s"
    assert seen(*runs).objective_name == "ms_per_call"


def test_calls_are_compared_where_no_function_is_called_as_often_again() -> None:
    spec = seen({"step": 300, "reset": 30}, {"step": 500, "reset": 50})
    assert spec.objective_name == "ms_per_call"
    assert spec.mix == pytest.approx({"step": 10 / 11, "reset": 1 / 11})
    assert seen({"step": 300, "reset": 3}, {"step": 500, "reset": 5}).mix == {}


def test_what_one_run_alone_shows_may_be_no_work() -> None:
    assert seen({"step": 300}).objective_name == "ms_per_call"
    assert seen({"step": 300}, {"step": 300}).objective_name == "rpc_active_s"
