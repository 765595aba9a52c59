"""The log of a study: its configurations, every world so far, and what follows from them alone."""

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tuner.decide.interim_analysis import InterimAnalysis
from tuner.decide.lost_calls import lost_calls
from tuner.decide.statistics import FloatArray, typical
from tuner.decide.verdict import Rules
from tuner.plan.config import Config
from tuner.plan.objectives import BrokenLimit, Limit, Objective
from tuner.plan.study_plan import StudyPlan
from tuner.study.blocks import BlockRows, TrialWorlds
from tuner.study.derived import Derived, once_for
from tuner.study.metrics import metrics_of
from tuner.study.records import (
    AGAIN,
    ForecastChange,
    ForecastThreads,
    Phase,
    Record,
    Sampling,
    forecast_in,
)
from tuner.study.trial_state import LEAST_TO_BAR, TrialState
from tuner.trace.forecast.by_callers import ByCallers
from tuner.world.measurement import Measurement

BASELINE = 0  # the number of the baseline's trial
BLOCK_PHASES: tuple[Phase, ...] = ("exploration", "race")  # Those whose worlds count.
_RECENT = 5  # so many worlds tell how long a step takes now


@once_for
def of_log(log: "StudyLog") -> Hashable:
    """What follows from all of a log: it changes with what is measured, a state, or a look."""
    return log.version


@once_for
def of_blocks(log: "StudyLog") -> Hashable:
    """What follows from the blocks alone."""
    return log.rows.version


@once_for
def of_states(log: "StudyLog") -> Hashable:
    """What follows from the states alone."""
    return log.state_changes


@once_for
def of_configs(log: "StudyLog") -> Hashable:
    """What follows from the configurations alone."""
    return len(log.configs)


class StudyLog:
    """What has been measured, by trial, and the state of each. What follows from all of it has the
    log's version. Adding a record takes the same time however many there are."""

    def __init__(
        self,
        plan: StudyPlan,
        configs: Sequence[Config],
        records: Sequence[Record] = (),
        eliminated: Mapping[int, str] | None = None,
    ) -> None:
        self.plan = plan
        self.configs: tuple[Config, ...] = ()
        self.sampling: Sampling | None = None
        self.looks: tuple[InterimAnalysis, ...] = ()  # at the blocks of the race, in order
        # The blocks that do not count: measured again as others disturbed them, or never finished.
        self.set_aside: tuple[int, ...] = ()
        self.dropped: tuple[int, ...] = ()
        self.forecasts: Mapping[tuple[float, ...], ForecastThreads] = {}  # by `forecast_key`
        self.changes: Mapping[int, tuple[ForecastChange, ...]] = {}
        """What the trace of the recommended trial, or else the baseline's, tells of changes."""
        self.callers: Mapping[int, tuple[ByCallers, ...]] = {}
        """And of more callers."""
        self.no_forecast = ""  # why the baseline's trace tells nothing of some other values
        self.records: list[Record] = []  # every world so far; `add` adds one
        self.trials: list[TrialWorlds] = []  # what each trial has measured
        self.states: list[TrialState] = []  # what each trial is
        self.rows, self.derived = BlockRows(), Derived()
        self.state_changes = 0
        self.extend(configs)
        for record in records:
            self.add(record)
        for trial, reason in (eliminated or {}).items():
            self.eliminate(trial, reason)

    @property
    def version(self) -> Hashable:
        """Another one after each change of what is measured, of a state, and after each look."""
        return self.rows.version, self.state_changes, self.looks, self.sampling

    def extend(self, configs: Sequence[Config]) -> None:
        """Take in new configurations, as the next trials."""
        first = len(self.configs)
        self.configs = (*self.configs, *configs)
        self.trials += [TrialWorlds() for _ in configs]
        self.states += [
            TrialState(is_baseline=trial == BASELINE) for trial in range(first, len(self.configs))
        ]
        self.state_changes += 1
        self.rows.changed()

    def add(self, record: Record) -> dict[int, TrialState]:
        """Take in the outcome of one world; returns the earlier states of the trials whose state it
        has changed."""
        costs = None
        if record.phase in BLOCK_PHASES and isinstance(record.outcome, Measurement):
            costs = self._costs(record.outcome)
        self.records.append(record)
        self.rows.add(record, costs)
        worlds = self.trials[record.trial]
        worlds.add(record, costs)
        # The others' answers and calls are judged beside the baseline's.
        judges = worlds.wrong_answer or worlds.calls.worlds or worlds.traced_calls.worlds
        is_all = record.trial == BASELINE and judges
        return self._judge(range(len(self.trials)) if is_all else [record.trial])

    def _costs(self, world: Measurement) -> list[float]:
        first, second = self.plan.objective, self.plan.second_objective
        costs = [first.cost(first.value(world))]
        if second is not None:
            value = second.read(world)
            costs.append(math.nan if value is None else second.cost(value))
        return costs

    def _judge(self, trials: Iterable[int]) -> dict[int, TrialState]:
        """Compute the states of trials anew; returns those before that have changed."""
        found = {}
        for trial in trials:
            before, now = self.states[trial], self._state_of(trial)
            if now != before:
                found[trial] = before
                self._change(trial, now)
        return found

    def _state_of(self, trial: int) -> TrialState:
        """The state of a trial, by its worlds and those of the baseline."""
        worlds, baseline = self.trials[trial], self.trials[BASELINE]
        lost, alpha, configs = None, self.rules.alpha, len(self.trials) - 1
        first = self.calibration(trial)
        if trial != BASELINE:
            lost = lost_calls(worlds.calls, baseline.calls, alpha=alpha, configs=configs)
            lost = lost or lost_calls(
                worlds.traced_calls, baseline.traced_calls, alpha=alpha, configs=configs,
                once=not self.plan.objective.traced,
            )  # fmt: skip
        return replace(
            self.states[trial],
            has_run=worlds.ran > 0,
            is_calibrated=first is not None,
            samples=min(len(worlds.samples), LEAST_TO_BAR),
            failure=next(iter(worlds.failures), None),
            failed_in_block=worlds.repeated_s > 0,
            deadlock=worlds.deadlock,
            wrong_answer=None if baseline.wrong_answer else worlds.wrong_answer,
            breaks=tuple(
                BrokenLimit(limit, value)
                for limit, value in self.limited(worlds.samples or ([first] if first else []))
                if limit.excess(value) > 0
            ),
            lost=lost,
        )

    def _change(self, trial: int, state: TrialState) -> None:
        before, self.states[trial] = self.states[trial], state
        self.state_changes += 1
        if state.does_less() != before.does_less():
            self.rows.changed()  # its times are of less work

    def eliminate(self, trial: int, reason: str | None) -> None:
        """Take a trial out of the race, or back without a reason."""
        self._change(trial, replace(self.states[trial], eliminated=reason))

    def distrust(self, *trials: int) -> None:
        """Have these trials be shown to fail more often than the others, or to deadlock though they
        ran."""
        for trial in trials:
            self._change(trial, replace(self.states[trial], unreliable=True))

    def put_aside(self, *blocks: int) -> None:
        """Have these blocks count no more; their failures remain."""
        self.set_aside = (*self.set_aside, *blocks)
        self._leave_out(blocks)

    def drop(self, *blocks: int) -> None:
        """Have these blocks, which nobody finishes, count no more; their failures remain."""
        self.dropped = (*self.dropped, *blocks)
        self._leave_out(blocks)

    def _leave_out(self, blocks: Sequence[int]) -> None:
        left = {record.trial for record in self.records if record.block in blocks}
        self.records = [record for record in self.records if record.block not in blocks]
        self.rows.drop(blocks)
        for trial in left:
            for block in blocks:
                self.trials[trial].drop(block)
        self._judge(left)

    @property
    def rules(self) -> Rules:
        """The plan's rules of decision."""
        return Rules(epsilon=self.plan.measuring.epsilon, confidence=self.plan.measuring.confidence)

    @of_states
    def those(self, are: Callable[[TrialState], bool]) -> tuple[int, ...]:
        """The trials in such a state, in order."""
        return tuple(trial for trial, state in enumerate(self.states) if are(state))

    @property
    def alive(self) -> tuple[int, ...]:
        """The trials that can be an answer; eliminated ones, and the baseline if it has run,
        included."""
        return self.those(TrialState.is_alive)

    @property
    def runnable(self) -> tuple[int, ...]:
        """The alive trials that have run: those that a block can measure."""
        return self.those(TrialState.is_runnable)

    @property
    def candidates(self) -> tuple[int, ...]:
        """The trials that can still win the race."""
        return self.those(TrialState.is_candidate)

    @property
    def racing(self) -> tuple[int, ...]:
        """The trials that the next block measures: the candidates, and the baseline with them."""
        return self.those(TrialState.is_racing)

    @property
    def failures(self) -> tuple[int, ...]:
        """The trials that never ran, and have failed."""
        return self.those(TrialState.never_ran)

    @property
    def eliminated(self) -> tuple[int, ...]:
        """The trials that are out of the race, whatever else they are."""
        return self.those(TrialState.is_eliminated)

    @property
    def unreliable(self) -> tuple[int, ...]:
        """The trials shown to fail more often than the others, or to deadlock though they ran."""
        return self.those(TrialState.is_unreliable)

    @property
    def reaches_all(self) -> bool:
        """Whether each configuration of the plan has a trial, or a sampler proposes some."""
        return self.sampling is not None or len(self.configs) >= len(self.plan.candidates())

    @property
    def compared(self) -> tuple[int, ...]:
        """The alive trials that a claim is about: all, or those a sampler left."""
        went_on = None if self.sampling is None else self.sampling.went_on
        return self.alive if went_on is None else tuple(filter(went_on.__contains__, self.alive))

    def calibration(self, trial: int) -> Measurement | None:
        """The calibration of a trial, if it has one that worked."""
        found = self.trials[trial].calibration
        return found if isinstance(found, Measurement) else None

    @property
    def calibrated(self) -> int:
        """The number of trials that have had their first world, with or without success."""
        return sum(trial.calibration is not None for trial in self.trials)

    def first_cost(self, trial: int, objective: Objective | None = None) -> float:
        """log(objective) of a trial's calibration, less is better; infinite where it has none."""
        first, objective = self.calibration(trial), objective or self.plan.objective
        value = None if first is None else objective.read(first)
        return math.inf if value is None else objective.cost(value)

    def limited(self, worlds: Sequence[Measurement]) -> list[tuple[Limit, float]]:
        """Each limit with what worlds have of it, the median."""
        found = []
        for limit in self.plan.measuring.require:
            values = map(limit.number.read, worlds)
            if known := [value for value in values if value is not None]:
                found.append((limit, statistics.median(known)))
        return found

    @property
    def traced_s(self) -> float:
        """Seconds that all traced worlds took."""
        return sum(trial.trace.world_s for trial in self.trials if trial.trace is not None)

    def blocks(self, phase: Phase) -> int:
        """The number of blocks of a phase, an unfinished one included."""
        return self.rows.begun(phase)

    @property
    def next_block(self) -> int:
        """The number of the next block to begin, of whichever phase."""
        return max(self.rows.highest, *self.set_aside, *self.dropped, -1) + 1

    def step_s(self, trial: int) -> float | None:
        """The typical step time of a trial's worlds, in seconds; None for a program."""
        worlds, calibration = self.trials[trial].samples[-_RECENT:], self.calibration(trial)
        if calibration is not None and len(worlds) < _RECENT:
            worlds.append(calibration)
        known = [world.median_step_s for world in worlds if world.median_step_s is not None]
        return statistics.median(known) if known else None

    def worlds(self, *phases: Phase, objective: int = 0) -> FloatArray:
        """log(objective), or the second one's, in the blocks of phases, in order; less is better.

        Blocks x (trials + 1), the last column for the baseline's second world; NaN where nothing
        was measured. A block in which every world failed has no row, nor has one that is being
        measured, or that began after it.
        """
        return self._worlds(phases, objective)

    @of_blocks
    def _worlds(self, phases: tuple[Phase, ...], objective: int) -> FloatArray:
        found = self.rows.matrix(phases, len(self.configs), objective)
        if out := self.those(TrialState.does_less):
            found[:, out] = math.nan  # its times are of less work
        return found

    @of_blocks
    def matrix(self, *phases: Phase, objective: int = 0) -> FloatArray:
        """`worlds` as blocks x trials: the baseline's is the mean of its worlds in a block."""
        return merged(self._worlds(phases, objective))

    def value(self, trial: int) -> float | None:
        """The typical objective of a trial, in its unit: a trimmed mean of logarithms."""
        if not (costs := self.trials[trial].costs):
            return None
        cost = typical(np.array(costs))
        return math.exp(-cost if self.plan.objective.maximize else cost)

    @of_blocks
    def log_cost(self) -> FloatArray:
        """log(CPU seconds per step or run) of each trial, the median; NaN where it is not known."""
        return np.array([trial.cpu_cost for trial in self.trials])

    @of_configs
    def threads(self) -> list[int]:
        """RPC worker threads of all ranks, by trial."""
        roles, of = [rank.role for rank in self.plan.subject.ranks], self.plan.threads_of
        return [sum(of(role, config) for role in roles) for config in self.configs]

    def forecast(self, config: Config) -> ForecastThreads | None:
        """What a trace of the baseline tells of a configuration; None: nothing."""
        return forecast_in(self.forecasts, self.plan, config)

    def variance_within(self) -> float | None:
        """`variance_within` of a typical world; None where none has enough steps to tell."""
        found = [within for worlds in self.trials for within in worlds.recent_within(_RECENT)]
        return statistics.median(found) if found else None

    def world_s(self, trial: int) -> float:
        """Seconds that a world of this trial takes, from those it has had; 0 if it had none."""
        return self.trials[trial].world_s(self.plan.measuring.min_time_s)

    def block_s(self, trials: Sequence[int]) -> float:
        """Seconds that one world of each of these trials takes; -1 is the baseline again."""
        return sum(self.world_s(BASELINE if trial == AGAIN else trial) for trial in trials)

    def metrics(self, trial: int) -> dict[str, float]:
        """The metrics that are known of a trial, by name."""
        worlds = self.trials[trial]
        traced = worlds.trace if isinstance(worlds.trace, Measurement) else None
        return metrics_of(worlds.samples, traced)

    def numbers(self, trial: int) -> dict[str, float]:
        """A trial's metrics, how many worlds count, and how many failed: for its Optuna trial."""
        worlds = self.trials[trial]
        counts = {"samples": len(worlds.samples), "worlds_failed": len(worlds.failures)}
        return {**{name: count for name, count in counts.items() if count}, **self.metrics(trial)}


def merged(worlds: FloatArray) -> FloatArray:
    """Blocks x trials, from blocks x (trials + 1) as `StudyLog.worlds` has them."""
    both = worlds[:, [BASELINE, AGAIN]]
    one = np.where(np.isnan(both), both[:, ::-1], both)
    return np.column_stack([one.mean(axis=1), worlds[:, 1:-1]])
