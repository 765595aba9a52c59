"""Workloads and configurations that the tests of the plan and of its presentation share."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tuner.plan.config import Config
from tuner.plan.workload_spec import RankSpec, WorkloadSpec


def workload_spec(
    *roles: str, reference: str = "udf", cuda_devices: int = 0, intra_op_threads: int = 1
) -> WorkloadSpec:
    """A workload with one rank per role given; a caller and a server unless told."""
    return WorkloadSpec(
        reference=reference,
        summary="A workload that only its description exists of.",
        options={"calls": 4, "size": 100},
        ranks=tuple(
            RankSpec(name=f"worker{rank}", role=role)
            for rank, role in enumerate(roles or ("caller", "server"))
        ),
        intra_op_threads=intra_op_threads,
        cuda_devices=cuda_devices,
    )


def for_all(**knobs: object) -> Config:
    """A configuration for all roles, values as JSON has them."""
    return Config.from_json({"*": knobs})


def threads(count: int) -> Config:
    """A configuration that only gives the number of worker threads."""
    return for_all(num_worker_threads=count)


def assert_refused(read: Callable[[Any], object], raws: Sequence[object], told: str) -> None:
    """Each of these is refused with the whole of what is told, in which `{raw}` stands for it."""
    for raw in raws:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is checked
            read(raw)
        assert str(caught.value) == told.format(raw=raw)
