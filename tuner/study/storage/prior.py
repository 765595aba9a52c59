"""What earlier studies on this machine found: the order in which a new study measures."""

import hashlib
import math
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from optuna.trial import TrialState

from tuner.errors import UsageError
from tuner.files import MOST_BYTES, head_of
from tuner.plan.config import Config
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.study_plan import StudyPlan
from tuner.plan.subject import Subject
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.reading import TrialFacts
from tuner.world.environment import Environment

MOST_STUDIES = 10
"""More tell no more."""
MOST_READ_S = 1.0
"""Nor is it worth longer to look for them: they decide an order alone."""
IDENTITY = "identity"
"""The note of a study that says what it is of."""


def identity_of(subject: Subject) -> str:
    """What a program or a workload is, whose studies tell of each other.

    It is what names it; and where files are named, the folder and their content, so that an edited
    script is another program.
    """
    if isinstance(subject, ProgramSpec):
        commands = [*subject.commands]
    else:
        name = subject.reference.rpartition(":")[0]
        commands = [(name,) if name.endswith(".py") else ("-m", name)]
    files = sorted({file for command in commands for file in _sources(command)})
    known = [subject.kind, subject.reference, *([str(Path.cwd())] if files else [])]
    contents = [hashlib.sha256(head_of(file, MOST_BYTES)).hexdigest() for file in files]
    return hashlib.sha256("\0".join([*known, *contents]).encode()).hexdigest()


def _sources(command: Sequence[str]) -> Iterator[Path]:
    """The scripts that a command names, and the file of the module behind `-m`."""
    for before, word in pairwise(["", *command]):
        module = word.replace(".", "/")
        named = [f"{module}.py", f"{module}/__main__.py"] if before == "-m" and word else [word]
        files = [Path(name) for name in named if name.endswith((".py", ".sh"))]
        yield from (file for file in files if file.is_file())


def prior_costs(
    places: Iterable[StudyPlace], plan: StudyPlan, environment: Environment
) -> dict[Config, float]:
    """How the configurations of a plan did in earlier studies of the same thing, on this machine.

    Args:
        places: Where the studies are, the latest first.
        plan: The plan of the new study: theirs must have its workload or program by `identity_of`,
            whatever the options, and its objective.
        environment: The machine and the software of today, which must be theirs.

    Returns:
        log(value) relative to the mean of its study, less is better, infinite for a failure; by
        configuration, and only of those that a study measured.
    """
    known: dict[Config, list[float]] = {}
    identity = identity_of(plan.subject)
    read, until_s = 0, time.monotonic() + MOST_READ_S
    for place in places:
        if read == MOST_STUDIES or time.monotonic() > until_s:
            break
        try:
            store = load_study(place)
            is_alike = store.noted(IDENTITY) == identity and _is_alike(store.plan(), plan)
            if not is_alike or store.environment.differences(environment):
                continue
            trials = zip(store.configs(), store.trials(), store.values(), strict=True)
            costs = _costs(trials, plan)
        except UsageError:
            continue  # an older version's, or a damaged one
        read += 1
        for config, cost in costs.items():
            known.setdefault(config, []).append(cost)
    return {config: statistics.fmean(costs) for config, costs in known.items()}


def in_prior_order(candidates: Sequence[Config], prior: Mapping[Config, float]) -> list[Config]:
    """The baseline, which is first, then what did well, what nobody measured, what did badly."""
    baseline, *others = candidates
    return [baseline, *sorted(others, key=lambda config: prior.get(config, 0.0))]


def _is_alike(theirs: StudyPlan, ours: StudyPlan) -> bool:
    return (
        theirs.subject.reference == ours.subject.reference
        and theirs.measuring.objective_name == ours.measuring.objective_name
    )


def _costs(
    trials: Iterable[tuple[Config, TrialFacts, Sequence[float]]], plan: StudyPlan
) -> dict[Config, float]:
    measured: dict[Config, float] = {}
    failed = []
    for config, trial, values in trials:
        if trial.state == TrialState.FAIL:
            failed.append(config)
        elif values:
            measured[config] = statistics.fmean(map(plan.objective.cost, values))
    middle = statistics.fmean(measured.values()) if measured else 0.0
    found = {config: cost - middle for config, cost in measured.items()}
    return {**found, **dict.fromkeys(failed, math.inf)}
