"""What earlier studies on this machine found: the order in which a new study measures."""

import hashlib
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from optuna.trial import TrialState

from tuner.errors import UsageError
from tuner.files import MOST_BYTES, head_of
from tuner.plan.config import Config
from tuner.plan.program_spec import Subject
from tuner.plan.study_plan import StudyPlan
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.storage.store import StudyStore
from tuner.world.environment import Environment
from tuner.world.measurement import Measurement

MOST_STUDIES = 10  # more would add nothing
MOST_READ_S = 1.0  # nor is it worth longer to look for them: they decide an order alone
IDENTITY = "identity"  # the note of a study that says what it is of


def identity_of(subject: Subject) -> str:
    """What identifies a program or a workload: its name, and the content of the files in that; of a
    program and of a file also the current folder, as others have a `main.py`.
    """
    name = subject.reference.rpartition(":")[0]
    of_workload = (name,) if name.endswith(".py") else ("-m", name)
    commands = subject.commands or [of_workload]
    files = sorted({file for command in commands for file in _sources(command)})
    folder = [str(Path.cwd())] if files or subject.commands else []
    known = [subject.kind, subject.reference, *folder]
    contents = [hashlib.sha256(head_of(file, MOST_BYTES)).hexdigest() for file in files]
    return hashlib.sha256("\0".join([*known, *contents]).encode()).hexdigest()


def _sources(command: Sequence[str]) -> Iterator[Path]:
    """The files that a command names, also as `--script=main.py`, and those of its modules."""
    for before, word in pairwise(["", *command]):
        module = word.replace(".", "/")
        named = [word, word.partition("=")[2], f"{word}/__main__.py"]
        if before == "-m" and word:
            named = [f"{module}.py", f"{module}/__main__.py"]
        yield from (Path(name) for name in named if name and _is_file(name))


def _is_file(name: str) -> bool:
    with suppress(OSError, ValueError):  # a word need not be a possible name of a file
        return Path(name).is_file()
    return False


def prior_costs(
    places: Iterable[StudyPlace], plan: StudyPlan, environment: Environment
) -> dict[Config, float]:
    """How the configurations of a plan did in earlier studies, given the latest first, of the same
    thing and objective, with this machine and software.

    It is log(value) relative to the mean of its study, less is better, infinite for a failure and
    for what breaks a limit of the plan.
    """
    known: dict[Config, list[float]] = defaultdict(list)
    identity, objective = identity_of(plan.subject), plan.measuring.objective_name
    read, until_s = 0, time.monotonic() + MOST_READ_S
    for place in places:
        if read == MOST_STUDIES or time.monotonic() > until_s:
            break
        with suppress(UsageError):  # another version's, or a damaged one
            store = load_study(place)
            if store.noted(IDENTITY) != identity or store.environment.differences(environment):
                continue
            if store.plan().measuring.objective_name == objective:
                for config, cost in _costs(store, plan).items():
                    known[config].append(cost)
                read += 1
    return {config: statistics.fmean(costs) for config, costs in known.items()}


def in_prior_order(candidates: Sequence[Config], prior: Mapping[Config, float]) -> list[Config]:
    """The baseline, which is first, then what did well, what no study measured, what did badly."""
    baseline, *others = candidates
    return [baseline, *sorted(others, key=lambda config: prior.get(config, 0.0))]


def _costs(store: StudyStore, plan: StudyPlan) -> dict[Config, float]:
    found: dict[Config, float] = {}
    for config, state, values in store.outcomes():
        if state == TrialState.FAIL:
            found[config] = math.inf
        elif values:
            found[config] = statistics.fmean(map(plan.objective.cost, values))
    for config in _breaking(store, plan):
        found[config] = math.inf
    measured = [*filter(math.isfinite, found.values())]
    middle = statistics.fmean(measured) if measured else 0.0
    return {config: cost - middle for config, cost in found.items()}


def _breaking(store: StudyStore, plan: StudyPlan) -> Iterator[Config]:
    """The configurations of a study that break a limit of the plan, by the median of their worlds:
    that study may have had other limits, or none."""
    limits, configs = plan.measuring.require, store.configs()
    worlds: dict[int, list[Measurement]] = defaultdict(list)
    for record in store.records() if limits else ():
        if record.phase != "trace" and isinstance(record.outcome, Measurement):
            worlds[record.trial].append(record.outcome)
    for trial, ran in worlds.items():
        for limit in limits:
            known = [value for value in map(limit.number.read, ran) if value is not None]
            if known and limit.excess(statistics.median(known)) > 0:
                yield configs[trial]
                break
