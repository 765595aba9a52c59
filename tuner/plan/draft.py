"""A plan as a person gives it, in TOML or by flags, with every mistake that it has."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tuner.errors import UsageError
from tuner.files import read_bounded
from tuner.plan.config import Config
from tuner.plan.config_text import flat_entries, read_table
from tuner.plan.keys import DEFAULT_SPACE, PLAN_KEYS
from tuner.plan.launching import Launching, read_launching
from tuner.plan.measuring import Measuring, read_measuring
from tuner.plan.objectives import METRIC, OBJECTIVES
from tuner.plan.program_request import read_program
from tuner.plan.program_spec import ProgramRequest, ProgramSpec
from tuner.plan.space import Space, baseline_config, check_against
from tuner.plan.study_plan import StudyPlan
from tuner.plan.subject import Subject
from tuner.plan.workload_spec import study_name_of
from tuner.text import did_you_mean, first_of

FORMAT = 1

OptionValue = bool | int | float | str

_STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_KNOWN_KEYS = ("format", *PLAN_KEYS, "program")
# Programs start slowly, and nobody made their runs short.
PROGRAM_DEFAULTS = {"budget": 300.0, "deadline": 600.0}


@dataclass(frozen=True)
class PlanDraft:
    """A plan as read, with every mistake that shows without knowing the workload."""

    name: str | None
    workload: str
    """Empty for a program."""
    options: Mapping[str, OptionValue]
    program: ProgramRequest | None
    chooses_objective: bool
    """Whether nobody named one, so that it follows from what is tuned."""
    space: Space
    chooses_space: bool
    """Whether nobody named one, so that it is the default one."""
    named_baseline: Config
    measuring: Measuring
    launching: Launching
    storage: str | None
    """An Optuna storage URL; None means SQLite in the study's folder."""
    out: Path | None
    """The study's folder; None means `studies/NAME`."""
    problems: tuple[str, ...]

    @property
    def study_name(self) -> str:
        """The name of the study: the one that is given, or else that of what is tuned."""
        usual = study_name_of(self.workload) if self.program is None else self.program.study_name
        return self.name or usual

    def with_objective(self, name: str) -> Self:
        """The draft with an objective that nobody has to choose any more."""
        measuring = self.measuring.model_copy(update={"objective_name": name})
        return replace(self, measuring=measuring, chooses_objective=False)

    def finish(self, subject: Subject) -> StudyPlan:
        """The plan, once its subject is known; UsageError with every mistake of the draft."""
        named = [(dimension, [value]) for dimension, value in self.named_baseline.items]
        measuring = self.measuring
        if self.chooses_objective and isinstance(subject, ProgramSpec):
            measuring = measuring.model_copy(update={"objective_name": subject.objective_name})
        problems = [
            *self.problems,
            *_check_objectives(measuring, subject),
            *_check_limits(measuring, subject),
            *self.launching.mistakes(subject.roles),
            *check_against(self.space.axes, subject),
            *(f"baseline: {mistake}" for mistake in check_against(named, subject)),
        ]
        if problems:
            raise UsageError.of_request(problems)
        return StudyPlan(
            name=self.study_name,
            subject=subject,
            space=self.space,
            baseline=baseline_config(self.named_baseline, self.space, subject),
            measuring=measuring,
            launching=self.launching,
        )


def _check_objectives(measuring: Measuring, subject: Subject) -> list[str]:
    first, second = measuring.objective_name, measuring.second_objective_name
    problems = _check_objective(first, subject)
    if second is None:
        return problems
    if OBJECTIVES[first].traced != OBJECTIVES[second].traced:
        problems.append(
            f"the objectives {first} and {second} cannot be measured together: only one of them is "
            "read from traced worlds"
        )
    return [*problems, *_check_objective(second, subject)]


def _check_objective(name: str, subject: Subject) -> list[str]:
    if subject.kind not in OBJECTIVES[name].of:
        known = [each.name for each in OBJECTIVES.values() if subject.kind in each.of]
        return [f"the objective {name} is not one of a {subject.kind}; known: {', '.join(known)}"]
    if name == METRIC.name and isinstance(subject, ProgramSpec) and subject.metric is None:
        return ["the objective metric needs a metric: NAME=REGEX with one group"]
    if not isinstance(subject, ProgramSpec):
        return []
    if name in ("rpc_active_s", "wall_s") and subject.window_s is not None:
        return [f"the objective {name} is for a program that ends by itself, not for a window"]
    if name == "rpc_active_s" and not subject.shuts_down:
        return ["the objective rpc_active_s needs a program whose ranks all call shutdown"]
    return []


def _check_limits(measuring: Measuring, subject: Subject) -> list[str]:
    has_metric = isinstance(subject, ProgramSpec) and subject.metric is not None
    return [
        mistake
        for limit in measuring.require
        for mistake in limit.mistakes(subject.kind, measuring.objective_name, has_metric=has_metric)
    ]


def read_plan_file(path: Path) -> dict[str, Any]:
    """The mapping in a TOML plan file; UsageError says the line of a syntax error."""
    try:
        return tomllib.loads(read_bounded(path).decode())
    except OSError as error:
        raise UsageError(f"cannot read the plan {path}: {error.strerror}") from None
    except RecursionError:
        raise UsageError(f"the plan {path} is not valid TOML: nested too deeply") from None
    except ValueError as error:  # also for what is no UTF-8, and a number of too many digits
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
        f"unknown key {key!r}{did_you_mean(key, _KNOWN_KEYS)}"
        for key in mapping
        if key not in _KNOWN_KEYS
    ]
    if (version := mapping.get("format", FORMAT)) != FORMAT:
        problems.append(f"format is {version!r}; this version reads format {FORMAT}")
    workload, program, mistakes = _read_subject(mapping)
    problems += mistakes
    entries, wrong_table = flat_entries(mapping.get("space", DEFAULT_SPACE))
    space, mistakes = Space.parse(entries)
    mistakes += wrong_table
    problems += [f"space: {mistake}" for mistake in mistakes]
    if not space.axes and not mistakes:
        problems.append("space: it is empty; give it a knob, such as num_worker_threads=1,2,4,8")
    baseline, mistakes = read_table(mapping.get("baseline", {}))
    problems += [f"baseline: {mistake}" for mistake in mistakes]
    defaults = {} if program is None else PROGRAM_DEFAULTS
    measuring, mistakes = read_measuring({**defaults, **mapping})
    problems += mistakes
    launching, mistakes = read_launching(mapping)
    problems += mistakes
    options = mapping.get("options", {})
    if not isinstance(options, Mapping):
        problems.append(f"options must be a table, got {options!r}")
        options = {}
    if options and program is not None:
        problems.append(
            f"options ({first_of([*map(str, options)], 3)}) are a workload's; a program has flags "
            "of its own, and knobs are given with space and baseline"
        )
    name, mistakes = _read_name(mapping)
    problems += mistakes
    storage, out = mapping.get("storage"), mapping.get("out")
    if out == "":
        problems.append("out must name a folder, got ''")
    return PlanDraft(
        name=name,
        workload=workload,
        options=options,
        program=program,
        chooses_objective=mapping.get("objective") is None,
        space=space,
        chooses_space="space" not in mapping,
        named_baseline=baseline,
        measuring=measuring,
        launching=launching,
        storage=None if storage is None else str(storage),
        out=None if out is None else Path(str(out)),
        problems=tuple(problems),
    )


def _read_subject(mapping: Mapping[str, Any]) -> tuple[str, ProgramRequest | None, list[str]]:
    """The workload's name or the program, of which a plan has one; and the mistakes."""
    program, problems = read_program(mapping)
    workload = mapping.get("workload", "")
    if not isinstance(workload, str):
        problems.append(f"workload must be a name, got {workload!r}")
    elif workload and program is not None:
        problems.append("a plan is for a workload or for a program, not for both")
    elif not workload and program is None and not problems:
        problems.append("a workload or a program is missing")
    return str(workload), program, problems


def _read_name(mapping: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """The study's name, None if the plan has none; and the mistakes."""
    if mapping.get("name") is None:
        return None, []
    name = str(mapping["name"])
    if not _STUDY_NAME.fullmatch(name):
        return name, [f"name (--study) must be letters, digits, '.', '_' and '-', got {name!r}"]
    return name, []
