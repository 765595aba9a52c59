"""The recommended configuration: `recommended.json`, and the lines to paste."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from tuner.decide.result import StudyAnswer, interval_json
from tuner.files import written_atomically
from tuner.plan.knobs import INTRA_OP_THREADS, DeviceMaps, Value
from tuner.plan.settings import Settings
from tuner.plan.workload_spec import WorkloadSpec

FORMAT = 1


def recommended_document(result: StudyAnswer) -> dict[str, Any]:
    """The content of `recommended.json`. The result must have a best."""
    assert result.best is not None
    spec = result.plan.workload
    return {
        "format": FORMAT,
        "study": result.study,
        "settings": result.best.to_json(),
        "verdict": result.verdict,
        "speedup": interval_json(result.speedup),
        "challenger": result.challenger_json(),
        "objective": result.objective.name,
        "baseline": result.baseline.to_json(),
        "environment": {
            **result.environment.model_dump(),
            "workload": spec.reference,
            "options": spec.options,
            "intra_op_threads": {
                role: result.best.for_role(role).get(INTRA_OP_THREADS.name, spec.intra_op_threads)
                for role in spec.roles
            },
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    }


def write_recommended(result: StudyAnswer, path: Path) -> None:
    """Write `recommended.json`, whole or not at all."""
    with written_atomically(path) as partial:
        partial.write_bytes(orjson.dumps(recommended_document(result), option=orjson.OPT_INDENT_2))


def recommended_for(path: Path) -> str | None:
    """The name of the study whose answer lies there; None if there is none to read."""
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    name = document.get("study") if isinstance(document, dict) else None
    return name if isinstance(name, str) else None


def init_rpc_lines(settings: Settings, spec: WorkloadSpec) -> str:
    """Python lines that start RPC with these settings, one options object per different role."""
    by_role = {role: _role_values(settings, spec, role) for role in spec.roles}
    different = {_options_call(values): values for values in by_role.values()}
    threads = {role: values[INTRA_OP_THREADS.name] for role, values in by_role.items()}
    lines = ["import torch", "import torch.distributed.rpc as rpc", ""]
    if len(set(threads.values())) == 1:
        lines.append(f"torch.set_num_threads({next(iter(threads.values()))})  # as measured")
    else:
        choices = ", ".join(f"{_literal(role)}: {count}" for role, count in threads.items())
        lines.append(f"torch.set_num_threads({{{choices}}}[role])  # as measured")
    if len(different) == 1:
        lines.append(f"options = {next(iter(different))}")
    else:
        lines += ["options = {"]
        lines += [
            f"    {_literal(role)}: {_options_call(values)}," for role, values in by_role.items()
        ]
        lines += ["}[role]"]
    lines.append(
        "rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)"
    )
    return "\n".join(lines)


def _role_values(settings: Settings, spec: WorkloadSpec, role: str) -> dict[str, Value]:
    return {INTRA_OP_THREADS.name: spec.intra_op_threads, **settings.for_role(role)}


def _options_call(values: Mapping[str, Value]) -> str:
    arguments = [
        f"{name}={value!r}"
        for name in ("num_worker_threads", "rpc_timeout")
        if (value := values.get(name)) is not None
    ]
    # The transports and channels are private arguments; PyTorch has no public ones for them.
    for name, argument in (
        ("transports", "_transports"),
        ("channels", "_channels"),
        ("devices", "devices"),
    ):
        if isinstance(chosen := values.get(name), tuple):
            arguments.append(f"{argument}={_literal(list(chosen))}")
    if isinstance(maps := values.get("device_maps"), DeviceMaps):
        by_callee = {
            callee: {f"cuda:{here}": f"cuda:{there}" for here, there in pairs}
            for callee, pairs in maps.by_callee
        }
        arguments.append(f"device_maps={_literal(by_callee)}")
    return f"rpc.TensorPipeRpcBackendOptions({', '.join(arguments)})"


def _literal(value: object) -> str:
    """A Python literal with double quotes, which JSON's lists, objects and strings are."""
    return json.dumps(value)
