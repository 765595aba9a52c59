"""Runs in a process of its own: imports a workload and says what it is, or what is wrong."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from tuner.plan.workload_spec import RankSpec, WorkloadSpec
from tuner.process_knobs import has_gil
from tuner.torch_private.support import missing_support
from workloads import Rank, WorkloadError
from workloads.options import options_of
from workloads.registry import load_workload

_RPC_NAME = re.compile(r"[A-Za-z0-9_:\-]{1,127}")


def describe(reference: str, options: Mapping[str, object]) -> dict[str, object]:
    """`{"spec": ...}`, `{"problems": [...]}` or `{"unsupported": [...]}`."""
    if lacks := missing_support():
        return {"unsupported": lacks}
    try:
        return {"spec": _spec(reference, options).model_dump(mode="json")}
    except WorkloadError as error:
        return {"problems": list(error.problems)}


def _spec(reference: str, options: Mapping[str, object]) -> WorkloadSpec:
    workload_class = load_workload(reference)
    if missing := sorted(workload_class.__abstractmethods__):
        raise WorkloadError([f"{reference} does not define {' and '.join(missing)}"])
    # This is the person's code: whatever it raises belongs into the answer.
    try:
        workload = workload_class(**options)
    except WorkloadError:
        raise
    except Exception as error:
        what = f"{reference} cannot be made: {type(error).__name__}: {error}"
        raise WorkloadError([what]) from error
    try:
        ranks = list(workload.ranks())
    except Exception as error:
        what = f"{reference}.ranks() raised {type(error).__name__}: {error}"
        raise WorkloadError([what]) from error
    if problems := _mistakes_in(ranks, reference):
        raise WorkloadError(problems)
    return WorkloadSpec(
        reference=reference,
        summary=(workload_class.__doc__ or "").strip().split("\n")[0],
        options={name: getattr(workload, name) for name in options_of(workload_class)[0]},
        ranks=tuple(RankSpec(name=rank.name, role=rank.role) for rank in ranks),
        intra_op_threads=workload.intra_op_threads,
        cuda_devices=torch.cuda.device_count(),
        has_gil=has_gil(),
    )


def _mistakes_in(ranks: Sequence[Rank], reference: str) -> list[str]:
    if not ranks:
        return [f"{reference}.ranks() is empty; rank 0 must be there to drive"]
    if not all(isinstance(rank, Rank) for rank in ranks):
        return [f"{reference}.ranks() must give workloads.Rank objects"]
    counts = Counter(rank.name for rank in ranks)
    names = [name for name in counts if not _RPC_NAME.fullmatch(name)]
    roles = [rank.role for rank in ranks if not rank.role.isidentifier()]
    return [
        *(f"the rank name {name!r} is used {n} times" for name, n in counts.items() if n > 1),
        *(f"the rank name {name!r} must be letters, digits, '_', ':' and '-'" for name in names),
        *(f"the role {role!r} must be letters, digits and '_'" for role in roles),
    ]
