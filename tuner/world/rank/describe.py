"""Runs in a process of its own: imports workloads and says what they are, or what is wrong."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import torch

from tuner.json_text import json_of
from tuner.plan.workload_spec import CatalogueEntry, OptionSpec, RankSpec, WorkloadSpec
from tuner.process_knobs import has_gil
from tuner.torch_private.support import missing_support
from workloads import Rank, Workload, WorkloadError
from workloads.options import options_of
from workloads.registry import SHIPPED, load_workload

_RPC_NAME = re.compile(r"[A-Za-z0-9_:\-]{1,127}")


def describe(reference: str, options: Mapping[str, object], answer: Connection) -> None:
    """Send `{"spec": ...}`, `{"problems": [...]}` or `{"unsupported": [...]}` as JSON."""
    document: dict[str, Any]
    if lacks := missing_support():
        document = {"unsupported": lacks}
    else:
        try:
            document = {"spec": _spec(reference, options).model_dump(mode="json")}
        except WorkloadError as error:
            document = {"problems": list(error.problems)}
    answer.send_bytes(json_of(document))


def list_shipped(answer: Connection) -> None:
    """Send a JSON list of `CatalogueEntry`, one for each shipped workload."""
    answer.send_bytes(json_of([_entry(name).model_dump(mode="json") for name in SHIPPED]))


def _entry(name: str) -> CatalogueEntry:
    workload_class = load_workload(name)
    options = [
        OptionSpec(
            name=option.name,
            kind=option.kind.__name__,
            default=option.default,
            limits=option.limits,
            summary=option.summary.split("\n")[0],
        )
        for option in options_of(workload_class)[0].values()
    ]
    roles: dict[str, int] = {}
    problems: Sequence[str] = ()
    try:
        roles = dict(Counter(rank.role for rank in workload_class().ranks()))
    except WorkloadError as error:
        problems = error.problems
    return CatalogueEntry(
        name=name,
        summary=_summary(workload_class),
        roles=roles,
        options=tuple(options),
        problems=tuple(problems),
    )


def _summary(workload_class: type[Workload]) -> str:
    return (workload_class.__doc__ or "").strip().split("\n")[0]


def _spec(reference: str, options: Mapping[str, object]) -> WorkloadSpec:
    workload_class = load_workload(reference)
    if missing := sorted(workload_class.__abstractmethods__):
        raise WorkloadError([f"{reference} does not define {' and '.join(missing)}"])
    try:
        workload = workload_class(**options)
    except WorkloadError:
        raise
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"
        raise WorkloadError([f"{reference} cannot be made: {detail}"]) from error
    ranks = _ranks(reference, workload)
    return WorkloadSpec(
        reference=reference,
        summary=_summary(workload_class),
        options={name: getattr(workload, name) for name in options_of(workload_class)[0]},
        ranks=tuple(RankSpec(name=rank.name, role=rank.role) for rank in ranks),
        intra_op_threads=workload.intra_op_threads,
        cuda_devices=torch.cuda.device_count(),
        has_gil=has_gil(),
    )


def _ranks(reference: str, workload: Workload) -> list[Rank]:
    try:
        ranks = list(workload.ranks())
    except Exception as error:
        # This is the person's code: whatever it raises belongs into the answer.
        raise WorkloadError(
            [f"{reference}.ranks() raised {type(error).__name__}: {error}"]
        ) from error
    if not ranks:
        raise WorkloadError([f"{reference}.ranks() is empty; rank 0 must be there to drive"])
    if not all(isinstance(rank, Rank) for rank in ranks):
        raise WorkloadError([f"{reference}.ranks() must give workloads.Rank objects"])
    problems = [
        f"the rank name {name!r} is used {count} times"
        for name, count in Counter(rank.name for rank in ranks).items()
        if count > 1
    ]
    problems += [
        f"the rank name {rank.name!r} must be letters, digits, '_', ':' and '-'"
        for rank in ranks
        if not _RPC_NAME.fullmatch(rank.name)
    ]
    problems += [
        f"the role {rank.role!r} must be letters, digits and '_'"
        for rank in ranks
        if not rank.role.isidentifier()
    ]
    if problems:
        raise WorkloadError(problems)
    return ranks
