"""The plan of a study: read from TOML and the command line, checked as a whole."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from tuner.errors import UsageError
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS, Value
from tuner.plan.objectives import OBJECTIVES, Objective
from tuner.plan.quantities import parse_duration_s, parse_fraction
from tuner.plan.space import Space, baseline_config, check_against_workload
from tuner.plan.workload_spec import WorkloadSpec
from tuner.text import did_you_mean

FORMAT = 1
DEFAULT_SPACE = {NUM_WORKER_THREADS.name: "1..32"}

OptionValue = bool | int | float | str

_STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _study_name(name: str) -> str:
    if not _STUDY_NAME.fullmatch(name):
        raise ValueError(f"must be letters, digits, '.', '_' and '-', got {name!r}")
    return name


def _confidence(raw: object) -> float:
    confidence = parse_fraction(raw)
    if confidence < 0.5:
        raise ValueError(f"must be at least 50%, got {raw} (95% is written 95% or 0.95)")
    return confidence


def _objective_name(name: str) -> str:
    if name not in OBJECTIVES:
        raise ValueError(f"unknown objective {name[:60]!r}{did_you_mean(name, tuple(OBJECTIVES))}")
    return name


ObjectiveName = Annotated[
    str,
    AfterValidator(_objective_name),
    WithJsonSchema({"enum": [*OBJECTIVES], "type": "string"}),
]
Duration = Annotated[float, BeforeValidator(parse_duration_s)]
Fraction = Annotated[float, BeforeValidator(parse_fraction)]


class Measuring(BaseModel):
    """How a study measures and decides: everything but the workload and the space.

    The aliases are the keys of a plan file and, with dashes, the flags of the command.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True)

    objective_name: ObjectiveName = Field("step_ms", alias="objective")
    budget_s: Duration = Field(60.0, alias="budget")
    max_blocks: int | None = Field(None, ge=1)
    epsilon: Fraction = 0.03
    confidence: Annotated[float, BeforeValidator(_confidence)] = 0.95
    min_time_s: Duration = Field(0.3, alias="min_time")
    """The steps of a world are as many as last this long."""
    deadline_s: Duration = Field(30.0, alias="deadline")
    """A world that takes longer is ended, as a failure."""
    seed: int = Field(0, ge=0, lt=2**32)

    @property
    def objective(self) -> Objective:
        """The number to make small."""
        return OBJECTIVES[self.objective_name]


class StudyPlan(BaseModel):
    """Everything that decides what a study measures; free of mistakes once it exists."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str
    workload: WorkloadSpec
    space: Space
    baseline: Config
    measuring: Measuring

    def candidates(self) -> list[Config]:
        """The baseline, then the grid, without what acts like an earlier configuration."""
        distinct: dict[object, Config] = {}
        for config in [self.baseline, *self.space.grid()]:
            distinct.setdefault(config.resolved(self.workload), config)
        return list(distinct.values())

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON data, but for where its files and its storage are."""
        return {
            "name": self.name,
            "workload": self.workload.model_dump(mode="json"),
            "space": self.space.to_json(),
            "baseline": self.baseline.to_json(),
            "measuring": self.measuring.model_dump(mode="json"),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. Raises ValueError, or KeyError, if the document is damaged."""
        space, mistakes = Space.parse(document["space"].items())
        if mistakes:
            raise ValueError(f"space: {mistakes[0]}")
        return cls(
            name=document["name"],
            workload=WorkloadSpec.model_validate(document["workload"]),
            space=space,
            baseline=Config.from_json(document["baseline"]),
            measuring=Measuring.model_validate(document["measuring"]),
        )

    def fingerprint(self) -> dict[str, Any]:
        """What a resumed study must have in common with its first session, as JSON data."""
        measuring = self.measuring.model_dump(exclude={"budget_s", "max_blocks"}, by_alias=True)
        workload = self.workload.model_dump(exclude={"summary", "cuda_devices"})
        return {
            "workload": workload["reference"],
            "options": workload["options"],
            "ranks": [f"{rank['name']} ({rank['role']})" for rank in workload["ranks"]],
            "space": self.space.to_json(),
            "baseline": self.baseline.to_json(),
            **measuring,
        }


_MEASURING_KEYS = tuple(field.alias or name for name, field in Measuring.model_fields.items())
_PLAN_KEYS = ("format", "name", "workload", "options", "space", "baseline", *_MEASURING_KEYS,
              "storage", "out")  # fmt: skip


@dataclass(frozen=True)
class PlanDraft:
    """A plan as read, with every mistake that shows without knowing the workload."""

    name: str | None
    workload: str
    options: Mapping[str, OptionValue]
    space: Space
    named_baseline: Config
    measuring: Measuring
    storage: str | None
    """An Optuna storage URL; None means SQLite in the study's folder."""
    out: Path | None
    """The study's folder; None means `studies/NAME`."""
    problems: tuple[str, ...]

    def finish(self, spec: WorkloadSpec) -> StudyPlan:
        """The plan, once the workload is known; UsageError with every mistake of the draft."""
        named = [(dimension, [value]) for dimension, value in self.named_baseline.items]
        problems = [
            *self.problems,
            *check_against_workload(self.space.axes, spec),
            *(f"baseline: {mistake}" for mistake in check_against_workload(named, spec)),
        ]
        if problems:
            raise UsageError.about("the plan", problems)
        name = self.name or default_study_name(spec.reference)
        return StudyPlan(
            name=name,
            workload=spec,
            space=self.space,
            baseline=baseline_config(self.named_baseline, self.space, spec),
            measuring=self.measuring,
        )


def default_study_name(reference: str) -> str:
    """The name of a study of a workload when nobody gives one: `echo` for `my/file.py:Echo`."""
    return reference.rpartition(":")[2].lower()


def read_plan_file(path: Path) -> dict[str, Any]:
    """The mapping in a TOML plan file; UsageError says the line of a syntax error."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise UsageError(f"cannot read the plan {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the plan {path} is not valid TOML: {error}") from None


def shipped_plan_path(workload: str) -> Path | None:
    """The plan behind `--workload NAME`, in a source checkout or in an installed package."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parent / "studies", package / "shipped"):
        if (path := folder / f"{workload}.toml").is_file() and path.parent == folder:
            return path
    return None


def draft_plan(mapping: Mapping[str, Any]) -> PlanDraft:
    """Read a plan's mapping, as a plan file holds it. Collects mistakes instead of raising."""
    problems = [
        f"unknown key {key!r}{did_you_mean(key, _PLAN_KEYS)}"
        for key in mapping
        if key not in _PLAN_KEYS
    ]
    if (version := mapping.get("format", FORMAT)) != FORMAT:
        problems.append(f"format is {version!r}; this version reads format {FORMAT}")
    workload = mapping.get("workload", "")
    if not isinstance(workload, str) or not workload:
        problems.append("workload is missing")
    entries, wrong_table = _flat_entries(mapping.get("space", DEFAULT_SPACE))
    space, mistakes = Space.parse(entries)
    mistakes += wrong_table
    problems += [f"space: {mistake}" for mistake in mistakes]
    if not space.axes and not mistakes:
        problems.append("space: it is empty; give it a knob, such as num_worker_threads=1,2,4,8")
    baseline, mistakes = _read_baseline(mapping.get("baseline", {}))
    problems += [f"baseline: {mistake}" for mistake in mistakes]
    measuring, mistakes = _read_measuring(mapping)
    problems += mistakes
    options = mapping.get("options", {})
    if not isinstance(options, Mapping):
        problems.append(f"options must be a table, got {options!r}")
        options = {}
    name = mapping.get("name")
    if name is not None:
        try:
            _study_name(str(name))
        except ValueError as error:
            problems.append(f"name {error}")
    storage, out = mapping.get("storage"), mapping.get("out")
    if out == "":
        problems.append("out must name a folder, got ''")
    return PlanDraft(
        name=None if name is None else str(name),
        workload=str(workload),
        options=options,
        space=space,
        named_baseline=baseline,
        measuring=measuring,
        storage=None if storage is None else str(storage),
        out=None if out is None else Path(str(out)),
        problems=tuple(problems),
    )


def _read_measuring(mapping: Mapping[str, Any]) -> tuple[Measuring, list[str]]:
    given = {key: mapping[key] for key in _MEASURING_KEYS if mapping.get(key) is not None}
    try:
        return Measuring.model_validate(given), []
    except ValidationError as error:
        return Measuring(), [_sentence(detail) for detail in error.errors()]


def _sentence(detail: Any) -> str:
    """One pydantic error as `budget must be a duration such as 60s, got 'soon'`."""
    key = ".".join(map(str, detail["loc"]))
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "value_error":
        return message if message.startswith("unknown") else f"{key} {message}"
    return f"{key}: {message[0].lower()}{message[1:]}, got {detail['input']!r}"


def read_config(pairs: list[tuple[str, str]]) -> Config:
    """The configuration in `KNOB=VALUE` pairs; UsageError with every mistake."""
    config, problems = _read_baseline(pairs)
    if problems:
        raise UsageError.about("the configuration", problems)
    return config


def _read_baseline(table: object) -> tuple[Config, list[str]]:
    values: dict[Dimension, Value] = {}
    entries, problems = _flat_entries(table)
    for key, raw in entries:
        try:
            dimension = Dimension.parse(key)
            if dimension in values:
                problems.append(f"{dimension} is given twice")
            values[dimension] = KNOBS[dimension.knob].read(raw)
        except ValueError as error:
            problems.append(str(error))
    return Config.of(values), problems


def _flat_entries(table: object) -> tuple[list[tuple[str, object]], list[str]]:
    """The entries of a table, or of a list of pairs as the command line gives; and the mistakes.

    `{"agent": {"num_worker_threads": 2}}` and `{"agent.num_worker_threads": 2}` read alike.
    """
    if isinstance(table, Mapping):
        entries: list[tuple[str, object]] = []
        for key, value in table.items():
            if isinstance(value, Mapping) and key not in KNOBS and "." not in key:
                entries += [(f"{key}.{knob}", raw) for knob, raw in value.items()]
            else:
                entries.append((key, value))
        return entries, []
    if isinstance(table, list) and all(
        isinstance(each, tuple) and len(each) == 2 for each in table
    ):
        return [(str(key), value) for key, value in table], []
    return [], [f"it must be a table, such as num_worker_threads = [1, 2, 4], got {table!r}"]
