"""A plan as a person gives it, by a TOML file, flags and keywords, with every mistake it has;
and the window of a program that its runs show."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tuner.errors import UsageError
from tuner.files import read_bounded
from tuner.plan.config import Config, flat_entries, read_table
from tuner.plan.keys import DEFAULT_SPACE, PLAN_KEYS
from tuner.plan.launching import Launching, read_launching
from tuner.plan.measuring import WISHED_BLOCKS, Measuring, read_measuring
from tuner.plan.objectives import METRIC, OBJECTIVES
from tuner.plan.program_request import WINDOW_FIELDS, ProgramRequest, read_program
from tuner.plan.program_spec import ProgramSpec, Subject
from tuner.plan.space import Space, baseline_config, check_against
from tuner.plan.study_plan import StudyPlan
from tuner.plan.workload_spec import study_name_of
from tuner.text import did_you_mean, first_of

FORMAT = 2
_POWERS = re.compile(r"(\d+)\.\.(\d+)(?!:|\d)")  # a range that in format 1 was of powers of two
_STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KNOWN_KEYS = ("format", *PLAN_KEYS, "program")
LEAST_WINDOWED = 9  # worlds of a window that fit at least: a run as it is, and four blocks of two
_LEAST_WINDOW = 1 / 4  # of the window that tells most for its time: few blocks tell less
_MOST_WINDOW = 0.75  # of a whole run: a window that takes longer saves too little


@dataclass(frozen=True)
class PlanDraft:
    """A plan as read, with every mistake that shows without knowing the workload."""

    name: str | None
    workload: str  # empty for a program
    options: Mapping[str, bool | int | float | str]
    program: ProgramRequest | None
    chooses_objective: bool  # whether nobody named one, so that it follows from what is tuned
    space: Space
    chooses_space: bool  # whether nobody named one, so that it is the default one
    named_baseline: Config
    measuring: Measuring
    launching: Launching
    storage: str | None  # an Optuna storage URL; None means SQLite in the study's folder
    out: Path | None  # the study's folder; None means `studies/NAME`
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what to tell of how it was read

    @property
    def study_name(self) -> str:
        """The name of the study: the one that is given, or else that of what is tuned."""
        usual = study_name_of(self.workload) if self.program is None else self.program.study_name
        return self.name or usual

    def with_objective(self, name: str) -> Self:
        """The draft with an objective that nobody has to choose any more."""
        measuring = self.measuring.model_copy(update={"objective_name": name})
        return replace(self, measuring=measuring, chooses_objective=False)

    def with_program(self, program: ProgramRequest) -> Self:
        """The draft with the program as it is asked for otherwise."""
        return replace(self, program=program)

    def finish(self, subject: Subject) -> StudyPlan:
        """The plan, once its subject is known; UsageError with every mistake of the draft."""
        if self.chooses_objective:
            return self.with_objective(subject.objective_name).finish(subject)
        named = [(dimension, [value]) for dimension, value in self.named_baseline.items]
        problems = [
            *self.problems,
            *_objective_mistakes(self.measuring, subject),
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
            measuring=self.measuring,
            launching=self.launching,
        )


def may_be_windowed(draft: PlanDraft) -> bool:
    """Whether a window may be chosen: nothing is asked for that only a whole run has."""
    program, measuring = draft.program, draft.measuring
    if program is None or program.window_s is not None or program.whole_runs:
        return False
    needs_end = program.metric or program.expect or measuring.require
    if needs_end or measuring.second_objective_name is not None:
        return False
    return draft.chooses_objective or measuring.objective_name == "ms_per_call"


def windowed(draft: PlanDraft, spec: ProgramSpec) -> ProgramSpec:
    """The program with the window that its runs showed, where whole runs are too long for the
    budget; of others it does not matter why there is none."""
    whole = spec.model_copy(update={"why_whole": ""})
    if not may_be_windowed(draft) or not spec.run_s:
        return whole
    block_s = spec.run_s[-1] * len(draft.finish(spec).candidates())
    if WISHED_BLOCKS * block_s <= draft.measuring.budget_s and not spec.was_cut:
        return whole
    part = spec.steady
    if part is None or (not spec.was_cut and part.world_s > _MOST_WINDOW * spec.run_s[-1]):
        return spec
    # A wider interval of each world is better than too few worlds.
    beside_s = part.world_s - part.window_s
    most_s = (draft.measuring.budget_s - sum(spec.run_s)) / LEAST_WINDOWED - beside_s
    window_s = min(part.window_s, max(_LEAST_WINDOW * part.window_s, most_s))
    part = part.model_copy(update={"window_s": window_s, "world_s": beside_s + window_s})
    chosen = {"window_s": window_s, "warm_up_s": part.warm_up_s, "window_is_chosen": True}
    return spec.model_copy(update={**chosen, "steady": part})


def like_before(draft: PlanDraft, known: StudyPlan) -> PlanDraft:
    """The draft with the window of the study that is resumed, or its whole runs, unless one of them
    is asked for."""
    program, before = draft.program, known.subject
    if program is None or program.window_s is not None or program.whole_runs:
        return draft
    kept = {name: getattr(before, name) for name in WINDOW_FIELDS}
    kept["whole_runs"] = before.window_s is None
    return draft.with_program(program.model_copy(update=kept))


def _objective_mistakes(measuring: Measuring, subject: Subject) -> list[str]:
    first, second = measuring.objective_name, measuring.second_objective_name
    problems = [_objective_mistake(first, subject)]
    if second is not None:
        if OBJECTIVES[first].traced != OBJECTIVES[second].traced:
            problems.append(
                f"the objectives {first} and {second} cannot be measured together: only one of "
                "them is read from traced worlds"
            )
        problems.append(_objective_mistake(second, subject))
    known = {"has_metric": subject.metric is not None}
    limits = (each.mistake(subject.kind, first, **known) for each in measuring.require)
    return [*filter(None, (*problems, *limits))]


def _objective_mistake(name: str, subject: Subject) -> str:
    if subject.kind not in OBJECTIVES[name].of:
        known = [each.name for each in OBJECTIVES.values() if subject.kind in each.of]
        return f"the objective {name} is not one of a {subject.kind}; known: {', '.join(known)}"
    if name == METRIC.name and subject.metric is None:
        return "the objective metric needs a metric: NAME=REGEX with one group"
    if name in ("rpc_active_s", "wall_s") and subject.window_s is not None:
        return f"the objective {name} is for a program that ends by itself, not for a window"
    if subject.shuts_down or name not in ("rpc_active_s", "ms_per_call"):
        return ""
    needs = f"the objective {name} needs a program whose ranks all call shutdown"
    if name == "rpc_active_s":
        return needs
    return f"{needs}, or a window of it (--window)" if subject.window_s is None else ""


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


def asked_draft(asked: Mapping[str, Any]) -> PlanDraft:
    """What these keywords of `tuner.tune` ask for; UsageError if none or two things are tuned."""
    workload, program, plan = (asked.get(name) for name in ("workload", "program", "plan"))
    beside = asked.get("beside") or ()
    if workload is None and plan is None and program is None:
        raise UsageError(
            "name a workload, a plan or a program: --workload udf, --plan FILE, -- python main.py"
        )
    if beside and program is None:
        raise UsageError("beside is for commands that run beside a program, and there is none")
    if workload is not None and program is not None:
        raise UsageError("name a workload or a program, not both")
    programs = None if program is None else [program, *beside]
    return draft_plan(plan_mapping(plan, workload, {**given(asked), "programs": programs}))


def given(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a plan that somebody gave among the keywords of `tuner.tune`: neither a switch
    that is off, nor a launcher itself."""
    return {
        name: value
        for name, value in asked.items()
        if name in PLAN_KEYS and (value or PLAN_KEYS[name].form != "switch")
        if name != "launcher" or isinstance(value, str)
    }


def plan_mapping(
    plan: str | Path | None, workload: str | None, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys of a plan file, or of the plan shipped for the workload, `changed`."""
    path = Path(plan) if plan is not None else workload and shipped_plan_path(workload)
    mapping = read_plan_file(path) if path else {}
    if workload is not None:
        mapping["workload"] = workload
    if changes.get("programs") is not None:
        mapping.pop("program", None)
    return changed(mapping, changes)


def changed(mapping: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's mapping with `changes` on top of it, in which None is no change; `options` are
    merged, every other key is replaced, the search space as a whole."""
    new = {key: value for key, value in changes.items() if value is not None}
    if "options" in new and isinstance(mapping.get("options", {}), Mapping):
        new["options"] = {**mapping.get("options", {}), **new["options"]}
    if "space" in new and "format" in mapping:
        new["format"] = FORMAT  # it is not the space of an old file any more
    return {**mapping, **new}


def draft_plan(mapping: Mapping[str, Any]) -> PlanDraft:
    """Read a plan's mapping, as a plan file holds it. Collects mistakes instead of raising."""
    unknown = [key for key in mapping if key not in _KNOWN_KEYS]
    problems = [f"unknown key {key!r}{did_you_mean(key, _KNOWN_KEYS)}" for key in unknown]
    version = mapping.get("format", FORMAT)
    if version not in (1, FORMAT):
        problems.append(f"format is {version!r}; this version reads format {FORMAT}")
    notes: list[str] = []
    if version == 1:
        mapping, notes = _of_format_1(mapping)
    program, mistakes = read_program(mapping)
    workload, wrong = _read_workload(mapping, program, mistakes)
    problems += [*mistakes, *wrong]
    space, mistakes = _read_space(mapping.get("space", DEFAULT_SPACE))
    problems += [f"space: {mistake}" for mistake in mistakes]
    baseline, mistakes = read_table(mapping.get("baseline", {}))
    problems += [f"baseline: {mistake}" for mistake in mistakes]
    measuring, mistakes = read_measuring(mapping, of_program=program is not None)
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
    place = (mapping.get(key) for key in ("name", "storage", "out"))
    name, storage, out = (None if each is None else str(each) for each in place)
    if name is not None and not _STUDY_NAME.fullmatch(name):
        problems.append(f"name (--study) must be letters, digits, '.', '_' and '-', got {name!r}")
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
        storage=storage,
        out=None if out is None else Path(out),
        problems=tuple(problems),
        notes=tuple(notes),
    )


def _of_format_1(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The mapping with each range of its space as the powers of two, and what to tell of that."""
    notes = []

    def listed_powers(found: re.Match[str]) -> str:
        low, high = int(found[1]), int(found[2])
        powers = [2**k for k in range(high.bit_length()) if low <= 2**k]
        notes.append(
            f"{found[0]} means the powers of two in a plan of format 1. In format {FORMAT} that is "
            f"{found[0]}:x2, and {found[0]} is every number"
        )
        return ",".join(map(str, powers)) or found[0]

    def read(values: object) -> object:
        if isinstance(values, Mapping):
            return {key: read(each) for key, each in values.items()}
        if isinstance(values, list):
            return [part for each in values for part in _parts(read(each))]
        return _POWERS.sub(listed_powers, values) if isinstance(values, str) else values

    changed_space = {"space": read(mapping["space"])} if "space" in mapping else {}
    return {**mapping, **changed_space}, notes[:1]


def _parts(value: object) -> list[object]:
    return [*value.split(",")] if isinstance(value, str) else [value]


def _read_workload(
    mapping: Mapping[str, Any], program: ProgramRequest | None, problems: Sequence[str]
) -> tuple[str, list[str]]:
    """The workload's name, empty for a program; and the mistakes beside those of the program."""
    workload = mapping.get("workload", "")
    if not isinstance(workload, str):
        return str(workload), [f"workload must be a name, got {workload!r}"]
    if workload and program is not None:
        return workload, ["a plan is for a workload or for a program, not for both"]
    if not workload and program is None and not problems:
        return workload, ["a workload or a program is missing"]
    return workload, []


def _read_space(table: object) -> tuple[Space, list[str]]:
    entries, mistakes = flat_entries(table)
    space, problems = Space.parse(entries)
    if not space.axes and not mistakes and not problems:
        mistakes = ["it is empty; give it a knob, such as num_worker_threads=1,2,4,8"]
    return space, [*problems, *mistakes]
