"""The plan of a study: everything that decides what it measures."""

import math
from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict

from tuner.plan.config import Config, Dimension
from tuner.plan.frozen_model import FrozenModel
from tuner.plan.keys import PLAN_KEYS
from tuner.plan.knobs import INTRA_OP_THREADS, NUM_WORKER_THREADS, SWITCH_INTERVAL
from tuner.plan.launching import Launching
from tuner.plan.measuring import Measuring
from tuner.plan.objectives import Objective
from tuner.plan.program_spec import ProgramSpec, Subject, intra_op_threads
from tuner.plan.space import Space
from tuner.plan.workload_spec import WorkloadSpec

_THREADS = INTRA_OP_THREADS.name


class StudyPlan(FrozenModel):
    """Everything that decides what a study measures; free of mistakes once it exists."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: str
    subject: Subject
    space: Space
    baseline: Config
    measuring: Measuring
    launching: Launching = Launching()

    @property
    def objective(self) -> Objective:
        """The number to make small, or large; of two the first, which decides."""
        return self.subject.objective(self.measuring.objective_name)

    @property
    def second_objective(self) -> Objective | None:
        """The second number to make small, or large."""
        name = self.measuring.second_objective_name
        return None if name is None else self.subject.objective(name)

    def candidates(self) -> list[Config]:
        """The baseline, then the grid, without what acts like an earlier configuration, and without
        bound ranks that have more intra-op threads than CPUs, where the grid has fewer of these:
        such threads wait for each other on one CPU."""
        distinct: dict[object, Config] = {}
        fewest = min((int(str(each)) for each in self.space.values_of(_THREADS)), default=math.inf)
        grid = self.space.grid()
        if fewest <= self._cpus:
            grid = [config for config in grid if not self._is_crowded(config)]
        for config in [self.baseline, *grid]:
            distinct.setdefault(config.resolved(self.subject), config)
        return list(distinct.values())

    @property
    def _cpus(self) -> float:
        """Of a bound rank; infinite where that is not known."""
        return self.subject.cpus_of_rank or math.inf

    def _is_crowded(self, config: Config) -> bool:
        """Whether some bound rank has more intra-op threads than logical CPUs."""
        return config.binds and any(
            threads > self._cpus for threads in intra_op_threads(self.subject, config).values()
        )

    @property
    def of_bound_ranks(self) -> list[str]:
        """The intra-op threads of each role whose bound ranks have fewer than it has by itself, as
        no configuration names a number; none where no rank is bound."""
        dimensions = {*self.space.dimensions, *self.baseline.values}
        if _THREADS in {dimension.knob for dimension in dimensions}:
            return []
        if not any(candidate.binds for candidate in self.candidates()):
            return []
        own = intra_op_threads(self.subject)
        return [f"{self._cpus} ({role})" for role, count in own.items() if count > self._cpus]

    def changed_by(self, config: Config) -> set[str]:
        """The knobs by which a configuration acts otherwise than the baseline."""
        own = self.baseline.resolved(self.subject)
        return {knob for _, knob, _ in {*config.resolved(self.subject)}.difference(own)}

    def is_forecast_alone(self, config: Config) -> bool:
        """Whether a configuration acts otherwise than the baseline, and by no knob but those of
        which a trace tells what they do."""
        changed = self.changed_by(config)
        return bool(changed) and changed <= {NUM_WORKER_THREADS.name, SWITCH_INTERVAL.name}

    def threads_of(self, role: str, config: Config) -> int:
        """The worker threads that a rank of a role has with a configuration."""
        own = self.subject.default_of(role, NUM_WORKER_THREADS.name)
        threads = config.for_role(role).get(NUM_WORKER_THREADS.name, own)
        assert isinstance(threads, int)
        return threads

    def threads_by_role(self, config: Config) -> tuple[int, ...]:
        """The worker threads of each role, in the order of the roles."""
        return tuple(self.threads_of(role, config) for role in self.subject.roles)

    def intervals_by_role(self, config: Config) -> tuple[float, ...]:
        """The switch interval of each role, in seconds."""
        dimensions = [Dimension(role, SWITCH_INTERVAL.name) for role in self.subject.roles]
        return tuple(float(str(config.value_of(each, self.subject))) for each in dimensions)

    def forecast_key(self, config: Config) -> tuple[float, ...]:
        """What a trace of the baseline can forecast of a configuration: `threads_by_role`, and
        where they are not the baseline's `intervals_by_role`."""
        own = self.intervals_by_role(config)
        others = () if own == self.intervals_by_role(self.baseline) else own
        return (*self.threads_by_role(config), *others)

    def keys(self) -> dict[str, Any]:
        """The plan as a plan file holds it, which `draft_plan` reads."""
        return {
            "name": self.name,
            **self.subject.keys(),
            "space": self.space.to_json(),
            "baseline": self.baseline.to_json(),
            **self.measuring.keys(),
            **self.launching.keys(),
        }

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON data, but for where its files and its storage are."""
        return {
            "name": self.name,
            self.subject.kind: self.subject.model_dump(mode="json"),
            "space": self.space.to_json(),
            "baseline": self.baseline.to_json(),
            "measuring": self.measuring.model_dump(mode="json"),
            "launching": self.launching.model_dump(mode="json"),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises ValueError, or KeyError, if the document is damaged."""
        space, mistakes = Space.parse(document["space"].items())
        if mistakes:
            raise ValueError(f"space: {mistakes[0]}")
        return cls(
            name=document["name"],
            subject=(
                ProgramSpec.model_validate(document["program"])
                if "program" in document
                else WorkloadSpec.model_validate(document["workload"])
            ),
            space=space,
            baseline=Config.from_json(document["baseline"]),
            measuring=Measuring.model_validate(document["measuring"]),
            launching=Launching.model_validate(document["launching"]),
        )

    def fingerprint(self) -> dict[str, Any]:
        """What a resumed study must have in common with its first session, as JSON data."""
        chosen = {
            **self.measuring.model_dump(by_alias=True, exclude={"until_clear"}),
            **self.launching.model_dump(),
            "place": [str(place) for place in self.launching.place],
        }
        may_change = {name for name, key in PLAN_KEYS.items() if key.may_change}
        return {
            **self.subject.fingerprint(),
            "ranks": [f"{rank.name} ({rank.role})" for rank in self.subject.ranks],
            "space": self.space.to_json(),
            "baseline": self.baseline.to_json(),
            **{key: value for key, value in chosen.items() if key not in may_change},
            "intra-op threads of bound ranks": self.of_bound_ranks,
        }
