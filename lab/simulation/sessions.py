"""The real session on a simulated machine: the code that searches, with no process and no file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lab.simulation.cells import BINDINGS, EPSILON, THREADS, Cell, Machine, Outcome
from testing.fakes import UDF, threads_of
from testing.known import known
from testing.results import ENVIRONMENT
from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.measuring import Measuring
from tuner.plan.space import Space
from tuner.plan.study_plan import StudyPlan
from tuner.searching.beginning import BETS, Forecasts, note_forecasts
from tuner.searching.fitting import fit_of, in_order_of_promise
from tuner.searching.progress_reports import Silent
from tuner.searching.runner import TRACED_TIME_S, Runner
from tuner.searching.session import measure_study, measurer_for
from tuner.searching.wall_time import Budget
from tuner.study.conclusion import Conclusion, conclude
from tuner.study.evidence import gains_of
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import ForecastThreads, Record
from tuner.study.storage.store import StudyStore
from tuner.study.together import Together, together_of
from tuner.world.environment import Environment
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement, RankUsage

CONFIDENCE = 0.95
FORECAST_ERROR = 0.12  # the standard deviation of log(forecast ratio)
_NUMBER = {threads: number for number, threads in enumerate(THREADS)}
_THREADS = Dimension(ALL_ROLES, "num_worker_threads")
_NOWHERE = StudyFolder(Path("nowhere"))


class MemoryStore(StudyStore):
    """A study of these configurations in memory, without Optuna."""

    def __init__(self, configs: Sequence[Config]) -> None:
        self.folder = _NOWHERE
        self.storage_elsewhere = None
        self.noted_facts: dict[str, Any] = {}
        self._configs = list(configs)
        self._kept: list[Record] = []
        self._out: dict[int, str] = {}

    @property
    def environment(self) -> Environment:
        return ENVIRONMENT

    def configs(self) -> list[Config]:
        return self._configs

    def add_configs(self, configs: Sequence[Config], plan: StudyPlan) -> None:
        self._configs += configs

    def records(self) -> list[Record]:
        return sorted(self._kept, key=lambda record: record.key)

    def eliminated(self) -> dict[int, str]:
        return dict(self._out)

    def add(self, record: Record, plan: StudyPlan) -> None:
        self._kept.append(record)

    def eliminate(self, number: int, reason: str | None) -> None:
        self._out.pop(number, None)
        if reason is not None:
            self._out[number] = reason

    def running(self) -> list[int]:
        return list(range(len(self._configs)))

    def _nothing(self, *_: Any, **__: Any) -> None:
        """What is for the dashboard, or for what a lost storage has missed."""

    repair = end = note_answer = _nothing

    def note(self, key: str, value: Any) -> None:
        self.noted_facts[key] = value

    def noted(self, key: str) -> Any:
        return self.noted_facts.get(key)


def number_of(config: Config) -> int:
    binding = config.for_role("server").get("cpu_binding", BINDINGS[0])
    return _NUMBER[threads_of(config)] + len(THREADS) * BINDINGS.index(str(binding))


class SimulatedRunner(Runner):
    """Worlds of a simulated machine, in place of those of a launcher."""

    def trace(self, config: Config, *how: Any, **more: Any) -> Measurement | Failure:
        """A traced world takes its time, and tells nothing."""
        del how, more
        assert isinstance(self.launcher, SimulatedLauncher)
        self.launcher.machine.steps(number_of(config), None, TRACED_TIME_S)
        least_s = self.plan.measuring.min_time_s
        return Failure(failure="trace-failed", message="nothing", world_s=least_s)


@dataclass
class SimulatedLauncher:
    """A launcher whose worlds run on a simulated machine."""

    machine: Machine

    def run(self, order: WorldOrder) -> Measurement | Failure:
        begun_s = self.machine()
        trial = number_of(order.config)
        if self.machine.fails(trial):
            world_s = self.machine() - begun_s
            return Failure(failure="crashed", message="worker1 failed first", world_s=world_s)
        step_s = self.machine.steps(trial, order.steps, order.min_time_s)
        usage = RankUsage.model_construct(
            name="worker0", cpu_s=len(step_s) * 1e-2, peak_rss_mb=200.0, threads=20
        )
        return Measurement.model_construct(
            kind="measurement", step_s=tuple(step_s), wall_s=math.fsum(step_s),
            world_s=self.machine() - begun_s, ranks=(usage,), tracing_overhead=None, trace=None,
            program=None,
        )  # fmt: skip


def plan_of(cell: Cell, *, threads: Sequence[int] = THREADS, **measuring: Any) -> StudyPlan:
    axes = [("cpu_binding", [*BINDINGS]), ("num_worker_threads", [*threads])]  # in a cell's order
    space, mistakes = Space.parse(axes[1:] if cell.size == len(THREADS) else axes)
    assert not mistakes
    return StudyPlan(
        name="simulated",
        subject=UDF,
        space=space,
        baseline=Config.from_json({"*": {"num_worker_threads": THREADS[0]}}),
        measuring=Measuring(
            budget_s=cell.budget_s, epsilon=EPSILON, confidence=CONFIDENCE, **measuring
        ),
    )


def run_session(
    cell: Cell, seed: int, *, parts: Sequence[float] = (1.0,), forecasts: str = "", **measuring: Any
) -> Outcome:
    """One study, and what its answer says; `parts` of the budget are given one after another.
    `forecasts` are `right` but for their error, or `shuffled`; empty: there are none."""
    machine, told = Machine(cell, seed), Forecasts()
    if forecasts:
        told = _forecasts(cell, seed, is_shuffled=forecasts == "shuffled")
    configs = plan_of(cell).candidates()
    later = list[Config]()
    if cell.is_long:
        within = cell._replace(budget_s=parts[0] * cell.budget_s)
        configs, later = _that_fit(within, seed, told, machine)
    store = MemoryStore(configs)
    store.note(BETS, [config.to_json() for config in later])
    if told.found:
        note_forecasts(store, told)
    for budget_s in (part * cell.budget_s for part in parts):
        plan = plan_of(cell._replace(budget_s=budget_s), seed=seed, **measuring)
        runner = SimulatedRunner(plan, SimulatedLauncher(machine), _NOWHERE)  # type: ignore[arg-type]
        budget = Budget(budget_s, machine.now_s, machine(), machine)
        measurer = measurer_for(runner, store, Silent(), budget)
        measure_study(measurer)
    log, conclusion = measurer.log, conclude(measurer.log)
    numbers = [*map(number_of, log.configs)]  # in the cell, by trial
    best, challenger = known(conclusion.best_trial), conclusion.challenger_trial
    found = None if challenger is None else gains_of(log).gain(challenger, BASELINE)
    leads = best if conclusion.leader_trial is None else conclusion.leader_trial
    chosen, together = numbers[leads], together_of(log, leads)
    return Outcome(
        recommended=numbers[best],
        favourite=chosen,
        verdict=known(conclusion.verdict),
        wrong=_is_wrong(cell, log, conclusion, numbers),
        wrong_knobs=together is not None and _is_wrong_of_knobs(cell, together),
        knobs_covered=_covered_gains(cell, chosen, together),
        covered=None if found is None or challenger is None
        else found.low <= cell.gain(numbers[challenger]) <= found.high,
        width=math.nan if found is None else (found.high - found.low) / 2,
        worlds=len(log.records),
    )  # fmt: skip


def _that_fit(
    cell: Cell, seed: int, told: Forecasts, machine: Machine
) -> tuple[list[Config], list[Config]]:
    """What a search begins with after a first world, and what may follow where not all fit. What is
    equally promising is in random order, since the order in which it is asked for tells nothing."""
    threads = np.random.default_rng([seed, 1]).permutation(THREADS).tolist()
    plan = plan_of(cell, threads=threads)
    order = WorldOrder(
        subject=plan.subject, config=plan.baseline, steps=None,
        min_time_s=plan.measuring.min_time_s, deadline_s=math.inf,
    )  # fmt: skip
    first = SimulatedLauncher(machine).run(order)
    fit = fit_of(plan, first, machine(), first.world_s, is_traced=True)
    found = in_order_of_promise(plan, told.found)
    return (found[:2], found[2:]) if fit.is_short else (found, [])


def _forecasts(cell: Cell, seed: int, *, is_shuffled: bool) -> Forecasts:
    """What a trace of the baseline tells of the other numbers of threads."""
    random = np.random.default_rng(seed)
    others = range(1, len(THREADS))
    of: list[int] = random.permutation(others).tolist() if is_shuffled else [*others]
    logs = [-cell.gain(number) + FORECAST_ERROR * random.standard_normal() for number in of]
    found = []
    for number, log in zip(others, logs, strict=True):
        low, ratio, high = (math.exp(log + reach * FORECAST_ERROR) for reach in (-2, 0, 2))
        threads = (THREADS[number],) * len(UDF.roles)
        found.append(ForecastThreads(threads=threads, ratio=ratio, low=low, high=high))
    return Forecasts({each.threads: each for each in found})


def _covered_gains(cell: Cell, chosen: int, together: Together | None) -> list[bool]:
    """Whether the interval of what each knob gave holds the truth."""
    unbound = chosen % len(THREADS)
    without = {"cpu_binding": unbound, "num_worker_threads": chosen - unbound}
    return [
        each.interval.low
        <= math.exp(cell.gain(chosen, without[each.dimension.knob]))
        <= each.interval.high
        for each in (() if together is None else together.gains)
        if each.interval is not None
    ]


def _is_wrong_of_knobs(cell: Cell, together: Together) -> bool:
    """Whether it names a best number of threads, or an interaction, where there is none."""

    def number(threads: Any, beside: Config) -> int:
        return number_of(Config.of({**beside.values, _THREADS: threads}))

    def gain(one: Any, other: Any, beside: Config) -> float:
        return cell.gain(number(one, beside), number(other, beside))

    for best in together.best_threads:
        worse = [other for other in best.tried if other not in best.near]
        if best.is_shown and min(gain(best.best, other, best.beside) for other in worse) <= 0:
            return True
    for both in together.interactions:
        here, there = (gain(both.value, both.other, beside) for beside, _ in both.gains)
        if abs(here - there) < 1e-9:
            return True
    return False


def _is_wrong(cell: Cell, log: StudyLog, conclusion: Conclusion, numbers: Sequence[int]) -> bool:
    """Whether the verdict, or who is said to fail more often, is not true."""
    if not all(cell.fails_more(numbers[trial]) for trial in log.unreliable):
        return True
    if BASELINE in log.unreliable:
        # It is left for its failures, however fast it is.
        return False
    gain = cell.gain(numbers[known(conclusion.best_trial)])
    log_epsilon = math.log1p(EPSILON) + 1e-12
    keeps = any(cell.gain(rival) > log_epsilon for rival in numbers)
    match conclusion.verdict:
        case "better":
            return gain <= 0
        case "keep-baseline":
            return keeps
        case "tie":
            return keeps or abs(gain) > log_epsilon
        case _:
            return False
