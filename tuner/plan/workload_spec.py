"""What the tuner has to know of a workload, without importing it."""

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Literal

from tuner.plan.frozen_model import FrozenModel
from tuner.plan.knobs import INTRA_OP_THREADS, KNOBS, Value


class RankSpec(FrozenModel):
    """One process of a world: its RPC name and its role."""

    name: str
    role: str


def distinct_roles(ranks: Iterable[RankSpec]) -> tuple[str, ...]:
    """The roles in order of first rank, each once."""
    return tuple(dict.fromkeys(rank.role for rank in ranks))


class OptionSpec(FrozenModel):
    """One option of a workload, as a person sets it with `--set name=value`."""

    name: str
    kind: str
    default: bool | int | float | str
    limits: str  # what a value must be, beyond its type; empty if nothing
    summary: str


class CatalogueEntry(FrozenModel):
    """A shipped workload: what it is, and what can be set."""

    name: str
    """What `--workload` takes."""
    summary: str
    """What it does, in a sentence."""
    roles: dict[str, int]
    """How many ranks of each role, with the default options; empty where there is a problem."""
    options: tuple[OptionSpec, ...]
    """What `--set` can change."""
    problems: tuple[str, ...] = ()
    """Why it cannot run here; empty if it can."""


def study_name_of(reference: str) -> str:
    """The name of a workload's study when nobody gives one: `file.Echo` for `my/file.py:Echo`; it
    is never that of a shipped workload, which has no dot."""
    where, _, name = reference.rpartition(":")
    module = PurePath(where).stem if where.endswith(".py") else where
    dotted = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{module}.{name}".lstrip("."))
    return dotted.strip("._-") or "workload"


class WorkloadSpec(FrozenModel):
    """A workload with its options filled in, as described by a process that imported it."""

    reference: str  # what names it: `udf`, `package.module:Class` or `file.py:Class`
    summary: str
    options: dict[str, bool | int | float | str]  # every option with its value, defaults included
    ranks: tuple[RankSpec, ...]
    intra_op_threads: int  # `torch.set_num_threads` unless the configuration says otherwise
    cuda_devices: int = 0
    has_gil: bool = True  # whether the interpreter has one: a switch interval means something then
    cpus_of_rank: int | None = None  # of a bound one's share; None where that is not known

    @property
    def kind(self) -> Literal["workload"]:
        """What it is, in one word."""
        return "workload"

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in order of first rank, each once."""
        return distinct_roles(self.ranks)

    def default_of(self, role: str, knob: str) -> Value:
        """What a process gets for a knob that the configuration does not name."""
        del role  # a workload has one default for all
        return self.intra_op_threads if knob == INTRA_OP_THREADS.name else KNOBS[knob].default

    def keys(self) -> dict[str, Any]:
        """The keys of a plan that ask for this workload."""
        return {"workload": self.reference, "options": self.options}

    def fingerprint(self) -> dict[str, Any]:
        """What studies of it must have in common, apart from the ranks."""
        return self.keys()
