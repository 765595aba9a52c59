import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.plan.specs import for_all, threads, workload_spec
from tests.present.results import nothing_ran, study_plan, study_result
from tuner.plan.settings import Settings
from tuner.plan.study_plan import StudyPlan
from tuner.present.config import init_rpc_lines, recommended_document, write_recommended


def test_the_document_holds_what_the_contract_says(plan: StudyPlan) -> None:
    document = recommended_document(study_result(plan))
    assert {"format", "settings", "verdict", "speedup", "environment"} <= set(document)
    assert document["format"] == 1
    assert document["settings"] == {"*": {"num_worker_threads": 4}}
    assert document["verdict"] == "better"
    assert document["speedup"] == {"estimate": 1.5, "ci_low": 1.4, "ci_high": 1.62}
    assert document["objective"] == "step_ms"
    assert document["baseline"] == {"*": {"num_worker_threads": 16}}


def test_the_environment_says_what_the_answer_depends_on(plan: StudyPlan) -> None:
    environment = recommended_document(study_result(plan))["environment"]
    date = datetime.fromisoformat(environment.pop("date"))
    assert timedelta(0) <= datetime.now(UTC) - date < timedelta(minutes=1)
    assert environment == {
        "torch": "2.13.0",
        "python": "3.11.9",
        "cpu_model": "Abacus 9000",
        "cpu_count": 2,
        "memory_gb": 7.7,
        "kernel": "6.1.0",
        "workload": "udf",
        "options": {"calls": 4, "size": 100},
        "intra_op_threads": {"caller": 1, "server": 1},
    }


def test_the_environment_says_the_intra_op_threads_that_were_tuned(tmp_path: Path) -> None:
    plan = study_plan(tmp_path, workload_spec(intra_op_threads=2))
    best = Settings.from_json({"server": {"intra_op_threads": 4}})
    environment = recommended_document(study_result(plan, best=best))["environment"]
    assert environment["intra_op_threads"] == {"caller": 2, "server": 4}


def test_a_speedup_that_is_not_known_is_null(plan: StudyPlan) -> None:
    document = recommended_document(study_result(plan, speedup=None))
    assert document["speedup"] == {"estimate": None, "ci_low": None, "ci_high": None}


def test_there_is_no_document_without_a_best(plan: StudyPlan) -> None:
    with pytest.raises(AssertionError):
        recommended_document(nothing_ran(plan))


def test_the_document_is_written_as_json_that_reads_back(plan: StudyPlan, tmp_path: Path) -> None:
    path = tmp_path / "recommended.json"
    best = Settings.from_json(
        {"*": {"transports": ["shm", "uv"]}, "server": {"device_maps": {"worker0": {"0": 1}}}}
    )
    write_recommended(study_result(plan, best=best), path)
    document = json.loads(path.read_text())
    assert Settings.from_json(document["settings"]) == best
    assert "\n" in path.read_text()


OF_EVERY_KNOB = for_all(
    num_worker_threads=8,
    transports="shm+uv",
    channels="cma+basic",
    rpc_timeout=5.5,
    devices="0+1",
    device_maps="worker1:0-1+1-0",
    intra_op_threads=2,
)


def test_the_lines_give_every_knob() -> None:
    assert init_rpc_lines(OF_EVERY_KNOB, workload_spec()).splitlines() == [
        "import torch",
        "import torch.distributed.rpc as rpc",
        "",
        "torch.set_num_threads(2)  # as measured",
        "options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=8, rpc_timeout=5.5, "
        '_transports=["shm", "uv"], _channels=["cma", "basic"], devices=["cuda:0", "cuda:1"], '
        'device_maps={"worker1": {"cuda:0": "cuda:1", "cuda:1": "cuda:0"}})',
        "rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)",
    ]


def test_a_default_is_left_to_pytorch() -> None:
    lines = init_rpc_lines(for_all(transports=None), workload_spec(intra_op_threads=3))
    assert "options = rpc.TensorPipeRpcBackendOptions()\n" in lines
    assert "torch.set_num_threads(3)" in lines


BY_ROLE = Settings.from_json(
    {
        "*": {"num_worker_threads": 8},
        "agent": {"num_worker_threads": 2},
        "logger": {"intra_op_threads": 4},
    }
)


def test_settings_that_differ_name_each_role() -> None:
    spec = workload_spec("agent", "observer", "observer", "logger")
    assert init_rpc_lines(BY_ROLE, spec).splitlines()[3:-1] == [
        'torch.set_num_threads({"agent": 1, "observer": 1, "logger": 4}[role])  # as measured',
        "options = {",
        '    "agent": rpc.TensorPipeRpcBackendOptions(num_worker_threads=2),',
        '    "observer": rpc.TensorPipeRpcBackendOptions(num_worker_threads=8),',
        '    "logger": rpc.TensorPipeRpcBackendOptions(num_worker_threads=8),',
        "}[role]",
    ]


def test_settings_by_role_that_agree_need_no_role() -> None:
    settings = Settings.from_json(
        {"caller": {"num_worker_threads": 4}, "server": {"num_worker_threads": 4}}
    )
    lines = init_rpc_lines(settings, workload_spec())
    assert "[role]" not in lines
    assert lines == init_rpc_lines(threads(4), workload_spec())


@pytest.mark.parametrize(
    ("settings", "roles"),
    [
        (OF_EVERY_KNOB, ("caller", "server")),
        (BY_ROLE, ("agent", "observer", "logger")),
        (Settings.from_json({'the "boss"': {"num_worker_threads": 2}}), ('the "boss"', "server")),
    ],
)
def test_the_lines_are_python(settings: Settings, roles: tuple[str, ...]) -> None:
    code = compile(init_rpc_lines(settings, workload_spec(*roles)), "lines", "exec")
    assert {"torch", "rpc", "options"} <= set(code.co_names)


def test_the_options_are_what_torch_takes() -> None:
    import torch.distributed.rpc as rpc

    settings = for_all(num_worker_threads=6, rpc_timeout=5, transports="uv")
    lines = init_rpc_lines(settings, workload_spec()).splitlines()
    (expression,) = [line.removeprefix("options = ") for line in lines if "options = " in line]
    known: dict[str, Any] = {"rpc": rpc}
    options = eval(expression, known)  # noqa: S307 - these are the lines that a person pastes
    assert isinstance(options, rpc.TensorPipeRpcBackendOptions)
    assert options.num_worker_threads == 6
    assert options.rpc_timeout == 5.0
