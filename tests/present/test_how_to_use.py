"""What to paste, where the recommended configuration binds ranks to logical CPUs."""

import shlex
from typing import Any

import pytest

from testing.results import ENVIRONMENT, known, measured, study_plan, study_result
from testing.specs import for_all, threads, workload_spec
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.recommended.documents import OF_EVERY_KNOB
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.plan.study_plan import StudyPlan
from tuner.present.how_to_use import init_rpc_lines, snippet_of
from tuner.study.answer import StudyAnswer
from tuner.world.environment import Environment

BOUND = for_all(num_worker_threads=4, cpu_binding="equal")
HERE = ENVIRONMENT.model_copy(update={"numa_nodes": 1, "threads_per_core": 1})
ALONE = "# cpu_binding is for ranks that have the machine to themselves.\n"


def bound(plan: StudyPlan | None = None, environment: Environment = HERE) -> StudyAnswer:
    rows = (measured(0, threads(16), 3.0), measured(1, BOUND, 2.0))
    return study_result(plan, environment=environment, best=BOUND, challenger=BOUND, rows=rows)


@pytest.fixture(autouse=True)
def _on_the_machine_of_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    here, module = HERE.model_dump(), "tuner.present.how_to_use"
    monkeypatch.setattr(f"{module}.this_machine", lambda: here)
    monkeypatch.setattr(f"{module}.share_of_rank", lambda rank, ranks: (rank, rank + ranks))


def text_of(answer: StudyAnswer) -> str:
    return known(snippet_of(answer)).text


def test_beside_the_lines_there_are_the_commands_that_bind() -> None:
    lines, _, last = text_of(bound()).rpartition("\n")
    assert lines == init_rpc_lines(BOUND, workload_spec())
    assert ALONE in lines
    assert last == (
        "# Instead of bind_cpus, on this machine: taskset -c 0,2 python ... (rank 0), "
        "taskset -c 1,3 python ... (rank 1)"
    )


@pytest.mark.parametrize(
    ("plan", "environment"),
    [
        (study_plan(), ENVIRONMENT),
        (study_plan(), HERE.model_copy(update={"threads_per_core": 2})),
        (study_plan(), HERE.model_copy(update={"cpu_count": 4})),
        (study_plan(workload_spec(*["caller"] * 9)), HERE),
        (study_plan(launcher="ray"), HERE),
    ],
    ids=["an older study", "other cores", "more CPUs", "many ranks", "several hosts"],
)
def test_elsewhere_there_are_the_lines_alone(plan: StudyPlan, environment: Environment) -> None:
    text = text_of(bound(plan, environment))
    assert "taskset" not in text
    assert "bind_cpus(rank, world_size)\n" in text


def test_a_program_is_run_with_the_sentence() -> None:
    draft = draft_plan({"program": COMMAND})
    plan = draft.finish(FakeProgramLauncher(lambda config: 1.0).subject_of(draft))
    run = f"rpc-tuner run studies/main/recommended.json -- {shlex.join(COMMAND)}"
    assert text_of(bound(plan)) == ALONE + run


def test_the_options_have_every_knob() -> None:
    options = (
        "options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=8, "
        '_transports=["shm", "uv"], _channels=["cma", "basic"], rpc_timeout=5.5, '
        'devices=["cuda:0", "cuda:1"], '
        'device_maps={"worker1": {"cuda:0": "cuda:1", "cuda:1": "cuda:0"}})'
    )
    assert options in init_rpc_lines(OF_EVERY_KNOB, workload_spec()).splitlines()


def test_a_switch_interval_of_one_role_names_each() -> None:
    config = Config.from_json({"server": {"switch_interval": 0.0002}})
    lines = init_rpc_lines(config, workload_spec()).splitlines()
    assert lines[0] == "import sys"
    assert lines[5] == 'sys.setswitchinterval({"caller": 0.005, "server": 0.0002}[role])  # seconds'


def test_the_options_are_what_torch_takes() -> None:
    import torch.distributed.rpc as rpc

    config = for_all(num_worker_threads=6, rpc_timeout=5, transports="uv")
    lines = init_rpc_lines(config, workload_spec()).splitlines()
    (expression,) = [line.removeprefix("options = ") for line in lines if "options = " in line]
    known: dict[str, Any] = {"rpc": rpc}
    options = eval(expression, known)  # noqa: S307 - these are the lines that a person pastes
    assert isinstance(options, rpc.TensorPipeRpcBackendOptions)
    assert options.num_worker_threads == 6
    assert options.rpc_timeout == 5.0
