"""What the tuner has to know of a workload, without importing it."""

import math
import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, ClassVar

from tuner.plan.config import Config
from tuner.plan.frozen_model import FrozenModel
from tuner.plan.keys import DEFAULTS
from tuner.plan.knobs import INTRA_OP_THREADS, KNOBS, Value
from tuner.plan.objectives import OBJECTIVES, Kind, Objective


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


class Ranks(FrozenModel):
    """What is known of the processes of a workload, or of a program."""

    ranks: tuple[RankSpec, ...]
    cuda_devices: int = 0
    has_gil: bool = True  # whether the interpreter has one: a switch interval means something then
    cpus_of_rank: int | None = None  # of a bound one's share; None where that is not known

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in order of first rank, each once."""
        return distinct_roles(self.ranks)


class WorkloadSpec(Ranks):
    """A workload with its options filled in, as described by a process that imported it."""

    reference: str  # what names it: `udf`, `package.module:Class` or `file.py:Class`
    summary: str
    options: dict[str, bool | int | float | str]  # every option with its value, defaults included
    intra_op_threads: int  # `torch.set_num_threads` unless the configuration says otherwise

    kind: ClassVar[Kind] = "workload"

    # What a `ProgramSpec` says of itself; of a workload nothing is run before its first world.
    has_steps: ClassVar = True  # that a world times, and tells how many
    commands: ClassVar[tuple[tuple[str, ...], ...]] = ()
    metric: ClassVar = None
    window_s: ClassVar = None
    warm_up_s: ClassVar = 0.0
    window_is_chosen: ClassVar = False
    shuts_down: ClassVar = True
    sets_intra_op_threads: ClassVar = False
    varies: ClassVar = False
    run_s: ClassVar[tuple[float, ...]] = ()
    usual_s: ClassVar = 0.0
    longest_run_s: ClassVar = math.inf
    objective_name: ClassVar[str] = DEFAULTS["objective"]

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

    def measured(self) -> dict[str, Any]:
        """What a recommendation says of it."""
        return self.keys()

    def named_baseline(self, baseline: Config) -> Config:
        """What a command has to name of a baseline: all, as the plan that is shipped for the
        workload may have another one than PyTorch's defaults."""
        return baseline

    def objective(self, name: str) -> Objective:
        """The objective of this name."""
        return OBJECTIVES[name]

    def why_compared(self, objective: Objective) -> str:
        """Why that is compared, as a clause: it is what was asked for."""
        del objective
        return ""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What a page says of it: names, each with a phrase."""
        options = ", ".join(f"{name}={value}" for name, value in self.options.items())
        summary = f"{self.reference}: {self.summary}"
        return [("workload", summary), ("options", options or "none")]

    def sooner_s(self, run_s: float) -> float:
        """How many seconds later worlds are shorter than one of so many."""
        del run_s
        return 0.0
