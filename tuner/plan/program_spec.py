"""What the tuner has to know of a program that nobody edits: how to run it, and what it is."""

import math
import re
import shlex
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tuner.patterns import pattern_problem
from tuner.plan.config import ALL_ROLES, Config
from tuner.plan.knobs import KNOBS, Value
from tuner.plan.measuring import LEAST_START_S
from tuner.plan.objectives import METRIC
from tuner.plan.workload_spec import RankSpec, distinct_roles


def _pattern(text: str) -> str:
    if problem := pattern_problem(text):
        raise ValueError(f"is not a regular expression: {text!r}: {problem}")
    return text


def _pattern_with_a_group(text: str) -> str:
    if re.compile(_pattern(text)).groups != 1:
        raise ValueError(f"needs one group in parentheses, such as 'loss: ([0-9.]+)', got {text!r}")
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]


class OutputMetric(BaseModel):
    """A number that a program prints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    pattern: Annotated[str, AfterValidator(_pattern_with_a_group)]
    """A regular expression whose only group is the number; the last match counts."""
    maximize: bool = False
    """Whether more is better."""

    def read(self, output: str) -> float | None:
        """The number in the output; None if there is none above zero."""
        found = re.findall(self.pattern, output, re.MULTILINE)
        try:
            value = float(found[-1].replace(",", "")) if found else 0.0
        except ValueError:
            return None
        return value if 0 < value < float("inf") else None


class ProgramRequest(BaseModel):
    """A program as a person asks for it: how to run it, and what to read from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    commands: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = Field(min_length=1)
    """The command; or several, which are run side by side and are one world."""
    role_patterns: tuple[tuple[str, Pattern], ...] = ()
    """Pairs of a role and a pattern of its RPC names; see `tuner.roles.role_of`."""
    expect: Pattern | None = None
    """What the output must match somewhere, or the answer is wrong."""
    metric: OutputMetric | None = None
    window_s: float | None = None
    """Seconds over which calls are counted, after which the program is ended; None: it ends by
    itself."""
    warm_up_s: float = 0.0
    """Seconds from the last rank's `init_rpc` to the window."""
    cold: bool = False
    """Whether each run starts its interpreters anew, even where they could be forked."""

    @property
    def reference(self) -> str:
        """The commands as a person would type them."""
        return " & ".join(shlex.join(command) for command in self.commands)

    @property
    def study_name(self) -> str:
        """The name of a study of it when nobody gives one: `main` for `python main.py`."""
        words = self.commands[0]
        scripts = [word for word in words if word.endswith((".py", ".sh"))]
        modules = [name for flag, name in pairwise(words) if flag == "-m"]
        name = scripts[0] if scripts else modules[0] if modules else words[0]
        stem = PurePath(name).stem if scripts or not modules else name.rpartition(".")[2]
        return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-") or "program"


STUCK_RUN, STUCK_COLD_RUN = 10, 2
"""A run that takes so many times as long as the latest one is stuck; or as the first one, which was
cold: a cold run may come after warm ones."""


class ProgramSpec(ProgramRequest):
    """A program as its first runs showed it."""

    ranks: tuple[RankSpec, ...] = Field(min_length=1)
    own: dict[str, dict[str, Any]]
    """The values that the program itself gives each role, by knob, as JSON."""
    calls: tuple[int, ...]
    """How many calls each of these runs made."""
    run_s: tuple[float, ...] = ()
    """How long each of them took, in seconds: the first one cold."""
    shuts_down: bool
    """Whether every rank calls `shutdown`."""
    own_network: bool
    """Whether it runs in a network namespace of its own."""
    has_world_size: bool = True
    """Whether its ranks are told how many they are; else they may join late and leave early."""
    starts: str = ""
    """How its runs start, and why: `warm: ...` or `cold: ...`; empty where that was not kept."""
    cuda_devices: int = 0
    has_gil: bool = True
    """Whether its interpreter has one, so that a switch interval means something."""

    @property
    def kind(self) -> Literal["program"]:
        """What it is, in one word."""
        return "program"

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in order of first rank, each once."""
        return distinct_roles(self.ranks)

    @cached_property
    def own_config(self) -> Config:
        """What the program itself gives each role."""
        return Config.from_json(self.own)

    def default_of(self, role: str, knob: str) -> Value:
        """What the program gives a role; where roles differ, all roles have the driver's."""
        asked = self.roles[0] if role == ALL_ROLES else role
        return self.own_config.for_role(asked).get(knob, KNOBS[knob].default)

    def fingerprint(self) -> dict[str, Any]:
        """What studies of it must have in common, apart from the ranks."""
        asked = self.model_dump(mode="json", include={*ProgramRequest.model_fields})
        return {**asked, "own": self.own}

    @property
    def longest_run_s(self) -> float:
        """How long a run may take that is not stuck, in seconds; infinite where none went well."""
        if not self.run_s:
            return math.inf
        return max(LEAST_START_S, STUCK_RUN * self.run_s[-1], STUCK_COLD_RUN * self.run_s[0])

    @property
    def objective_name(self) -> str:
        """What to make small where nobody says: the time per call where only that compares."""
        if self.metric is not None:
            return METRIC.name
        if self.window_s is not None or len(set(self.calls)) > 1:
            return "ms_per_call"
        return "rpc_active_s" if self.shuts_down else "wall_s"
