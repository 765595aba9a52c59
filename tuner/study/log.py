"""The log of a study: its configurations, every world so far, and what follows from them alone."""

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from tuner.decide.interim_analysis import InterimAnalysis
from tuner.decide.lost_calls import LostCalls, lost_calls
from tuner.decide.statistics import FloatArray, typical
from tuner.decide.verdict import Rules
from tuner.plan.config import Config
from tuner.plan.objectives import BrokenLimit, Limit, Objective
from tuner.plan.study_plan import StudyPlan
from tuner.study.blocks import BlockRows, TrialWorlds
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
from tuner.world.measurement import Failure, Measurement

BASELINE = 0  # the number of the baseline's trial
BLOCK_PHASES: tuple[Phase, ...] = ("exploration", "race")  # Those whose worlds count.
LEAST_TO_BAR = 3  # one unlucky world in a row of few bars no configuration from the search
FAILS_MORE = "fails-more"  # the outcome of what does less work than the baseline
_RECENT = 5  # so many worlds tell how long a step takes now


class StudyLog:
    """What has been measured, by trial. `eliminated` says why trials are out of the race; the
    baseline never is. Adding a record takes the same time however many there are."""

    def __init__(
        self,
        plan: StudyPlan,
        configs: Sequence[Config],
        records: Sequence[Record] = (),
        eliminated: Mapping[int, str] | None = None,
    ) -> None:
        self.plan = plan
        self.configs = tuple(configs)
        self.eliminated = dict(eliminated or {})
        self.sampling: Sampling | None = None
        self.looks: tuple[InterimAnalysis, ...] = ()  # at the blocks of the race, in order
        # The blocks that do not count: measured again as others disturbed them, or never finished.
        self.set_aside: tuple[int, ...] = ()
        self.dropped: tuple[int, ...] = ()
        # The first failure of each trial that has one and never ran; no trace is any of these.
        self.failures: dict[int, Failure] = {}
        self._unreliable: tuple[int, ...] = ()
        # The first proved deadlock of each trial that had one, also if it has run as well.
        self.deadlocks: dict[int, Failure] = {}
        self.barred: dict[int, list[BrokenLimit]] = {}  # those that surely break a limit
        self.lost: dict[int, LostCalls] = {}  # those that may do less work than the baseline
        self.forecasts: Mapping[tuple[float, ...], ForecastThreads] = {}  # by `forecast_key`
        self.changes: Mapping[int, tuple[ForecastChange, ...]] = {}
        """What the trace of the recommended trial, or else the baseline's, tells of changes."""
        self.no_forecast = ""  # why the baseline's trace tells nothing of some other values
        self.records: list[Record] = []  # every world so far; `add` adds one
        self.trials = [TrialWorlds() for _ in self.configs]  # what each trial has measured
        self.rows = BlockRows()
        for record in records:
            self.add(record)

    def extend(self, configs: Sequence[Config]) -> None:
        """Take in new configurations, as the next trials."""
        self.configs = (*self.configs, *configs)
        self.trials += [TrialWorlds() for _ in configs]
        self.rows.changed()

    def add(self, record: Record) -> None:
        """Take in the outcome of one world."""
        costs = None
        if record.phase in BLOCK_PHASES and isinstance(record.outcome, Measurement):
            costs = self._costs(record.outcome)
        self.records.append(record)
        self.rows.add(record, costs)
        worlds = self.trials[record.trial]
        worlds.add(record, costs)
        outcome, is_trace = record.outcome, record.phase == "trace"
        if isinstance(outcome, Failure) and outcome.failure == "deadlocked" and not is_trace:
            self.deadlocks.setdefault(record.trial, outcome)
        if worlds.ran:
            self.failures.pop(record.trial, None)
        elif worlds.failures:
            self.failures[record.trial] = worlds.failures[0]
        self._judge(record.trial)
        self.rows.changed()

    def _costs(self, world: Measurement) -> list[float]:
        first, second = self.plan.objective, self.plan.second_objective
        costs = [first.cost(first.value(world))]
        if second is not None:
            value = second.read(world)
            costs.append(math.nan if value is None else second.cost(value))
        return costs

    def _judge(self, trial: int) -> None:
        if len(self.trials[trial].samples) >= LEAST_TO_BAR and (broken := self.broken(trial)):
            self.barred[trial] = broken
        else:
            self.barred.pop(trial, None)
        self._judge_calls(trial)

    def _judge_calls(self, trial: int) -> None:
        baseline, alpha = self.trials[BASELINE], self.rules.alpha
        configs = len(self.trials) - 1
        for each in range(1, len(self.trials)) if trial == BASELINE else (trial,):
            own = self.trials[each]
            found = lost_calls(own.calls, baseline.calls, alpha=alpha, configs=configs)
            found = found or lost_calls(
                own.traced_calls, baseline.traced_calls, alpha=alpha, configs=configs,
                once=not self.plan.objective.traced,
            )  # fmt: skip
            self.lost.pop(each, None)
            if found is not None and each != BASELINE:
                self.lost[each] = found

    def put_aside(self, *blocks: int) -> None:
        """Have these blocks count no more; their failures remain."""
        self.set_aside = (*self.set_aside, *blocks)
        self._leave_out(blocks)

    def drop(self, *blocks: int) -> None:
        """Have these blocks, which nobody finishes, count no more; their failures remain."""
        self.dropped = (*self.dropped, *blocks)
        self._leave_out(blocks)

    def _leave_out(self, blocks: Sequence[int]) -> None:
        left = {each.trial for each in self.records if each.block in blocks}
        self.records = [each for each in self.records if each.block not in blocks]
        self.rows.drop(blocks)
        for trial in left:
            for block in blocks:
                self.trials[trial].drop(block)
            self._judge(trial)
        self.rows.changed()

    @property
    def unreliable(self) -> tuple[int, ...]:
        """The trials shown to fail more often than the others, or to deadlock though they ran."""
        return self._unreliable

    @unreliable.setter
    def unreliable(self, trials: tuple[int, ...]) -> None:
        self._unreliable = trials
        self.rows.changed()

    @property
    def rules(self) -> Rules:
        """The plan's rules of decision."""
        return Rules(epsilon=self.plan.measuring.epsilon, confidence=self.plan.measuring.confidence)

    def wrong_answer(self, trial: int) -> Failure | None:
        """The wrong answer that bars a trial; None where the baseline has given one, too."""
        return None if self.trials[BASELINE].wrong_answer else self.trials[trial].wrong_answer

    @property
    def wrong(self) -> set[int]:
        """The trials that a wrong answer bars."""
        return {trial for trial in range(len(self.configs)) if self.wrong_answer(trial)}

    @property
    def does_less(self) -> set[int]:
        """The trials that are shown to do less work than the baseline."""
        return {trial for trial, lost in self.lost.items() if lost.is_shown}

    @property
    def alive(self) -> list[int]:
        """The trials that can run, not too rarely, do the work and keep the limits; eliminated
        ones, and the baseline if it has run, included.
        """
        every = range(len(self.configs))
        return [*self.rows.once("alive", lambda: [*filter(self.is_alive, every)])]

    def is_alive(self, trial: int) -> bool:
        """Whether a trial is one of `alive`."""
        does_less = trial in self.lost and self.lost[trial].is_shown
        is_out = trial in self.barred or trial in self.unreliable or does_less
        is_out = is_out or self.wrong_answer(trial) is not None
        return trial not in self.failures and (trial == BASELINE or not is_out)

    @property
    def reaches_all(self) -> bool:
        """Whether each configuration of the plan has a trial, or a sampler proposes some."""
        return self.sampling is not None or len(self.configs) >= len(self.plan.candidates())

    @property
    def compared(self) -> list[int]:
        """The alive trials that a claim is about: all, or those a sampler left."""
        went_on = self.sampling and self.sampling.went_on
        return self.alive if went_on is None else [each for each in self.alive if each in went_on]

    @property
    def runnable(self) -> list[int]:
        """The alive trials that have run: those that a block can measure."""
        return [trial for trial in self.alive if self.calibration(trial)]

    @property
    def candidates(self) -> list[int]:
        """The trials that can still win the race."""
        out = {*self.eliminated, *self.barred, *self.unreliable}
        return [trial for trial in self.alive if trial not in out]

    @property
    def racing(self) -> list[int]:
        """The trials that the next block measures: the candidates, and the baseline with them."""
        baseline = [BASELINE] if BASELINE not in self.failures else []
        return sorted({*self.candidates, *baseline})

    def outcome(self, trial: int) -> str:
        """`completed`, `eliminated`, `not-measured`, `infeasible`, `fails-more`, or the kind of
        failure."""
        if failure := self.why_out(trial):
            return failure.failure
        if trial in self.does_less:
            return FAILS_MORE
        if self.broken(trial):
            return "infeasible"
        seen = self.trials[trial].samples or self.calibration(trial)
        if seen and trial in self.eliminated and trial != BASELINE:
            return "eliminated"
        return "completed" if self.trials[trial].samples else "not-measured"

    def why_out(self, trial: int) -> Failure | None:
        """Why a trial never ran, in no block at least, or is out; None for one that counts."""
        worlds = self.trials[trial]
        never_ran = trial in self.failures or (worlds.repeated_s and not worlds.samples)
        is_out = never_ran or (trial in self.unreliable and trial != BASELINE)
        why = self.deadlocks.get(trial) or next(iter(worlds.failures), None)
        return self.wrong_answer(trial) or (why if is_out else None)

    def calibration(self, trial: int) -> Measurement | None:
        """The calibration of a trial, if it has one that worked."""
        found = self.trials[trial].calibration
        return found if isinstance(found, Measurement) else None

    @property
    def calibrated(self) -> int:
        """The number of trials that have had their first world, with or without success."""
        return sum(each.calibration is not None for each in self.trials)

    def first_cost(self, trial: int, objective: Objective | None = None) -> float:
        """log(objective) of a trial's calibration, less is better; infinite where it has none."""
        first, objective = self.calibration(trial), objective or self.plan.objective
        value = None if first is None else objective.read(first)
        return math.inf if value is None else objective.cost(value)

    def limited(self, trial: int) -> list[tuple[Limit, float]]:
        """Each limit with what a trial has of it: the median over its worlds that count."""
        found = []
        for limit in self.plan.measuring.require:
            values = map(limit.number.read, self.trials[trial].samples)
            if known := [value for value in values if value is not None]:
                found.append((limit, statistics.median(known)))
        return found

    def broken(self, trial: int) -> list[BrokenLimit]:
        """The limits that a trial does not keep."""
        limited = self.limited(trial)
        return [BrokenLimit(limit, value) for limit, value in limited if limit.excess(value) > 0]

    def breaks(self, trial: int) -> list[BrokenLimit]:
        """The limits that it does not keep by its first world, where no other one counts."""
        first = self.calibration(trial)
        if self.trials[trial].samples or first is None:
            return self.broken(trial)
        read = [(limit, limit.number.read(first)) for limit in self.plan.measuring.require]
        known = [(limit, value) for limit, value in read if value is not None]
        return [BrokenLimit(limit, value) for limit, value in known if limit.excess(value) > 0]

    @property
    def traced_s(self) -> float:
        """Seconds that all traced worlds took."""
        return sum(each.trace.world_s for each in self.trials if each.trace is not None)

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
        known = [each.median_step_s for each in worlds if each.median_step_s is not None]
        return statistics.median(known) if known else None

    def worlds(self, *phases: Phase, objective: int = 0) -> FloatArray:
        """log(objective), or the second one's, in the blocks of phases, in order; less is better.

        Blocks x (trials + 1), the last column for the baseline's second world; NaN where nothing
        was measured. A block in which every world failed has no row, nor has one that is being
        measured, or that began after it.
        """
        made_of = phases, len(self.configs), objective
        return self.rows.once(("worlds", *made_of), lambda: self._worlds(*made_of))

    def _worlds(self, phases: tuple[Phase, ...], trials: int, objective: int) -> FloatArray:
        found = self.rows.matrix(phases, trials, objective)
        if out := [*self.does_less]:
            found = found.copy()  # its times are of less work
            found[:, out] = math.nan
        return found

    def matrix(self, *phases: Phase, objective: int = 0) -> FloatArray:
        """`worlds` as blocks x trials: the baseline's is the mean of its worlds in a block."""
        return self.rows.once(
            ("matrix", phases, len(self.configs), objective),
            lambda: merged(self.worlds(*phases, objective=objective)),
        )

    def value(self, trial: int) -> float | None:
        """The typical objective of a trial, in its unit: a trimmed mean of logarithms."""
        if not (costs := self.trials[trial].costs):
            return None
        cost = typical(np.array(costs))
        return math.exp(-cost if self.plan.objective.maximize else cost)

    def log_cost(self) -> FloatArray:
        """log(CPU seconds per step or run) of each trial, the median; NaN where it is not known."""
        return self.rows.once(
            "log_cost",
            lambda: np.array(
                [np.median(each.cpu_costs) if each.cpu_costs else np.nan for each in self.trials]
            ),
        )

    def threads(self) -> list[int]:
        """RPC worker threads of all ranks, by trial."""
        roles, of = [rank.role for rank in self.plan.subject.ranks], self.plan.threads_of
        return self.rows.once(
            "threads", lambda: [sum(of(role, each) for role in roles) for each in self.configs]
        )

    def forecast(self, config: Config) -> ForecastThreads | None:
        """What a trace of the baseline tells of a configuration; None: nothing."""
        return forecast_in(self.forecasts, self.plan, config)

    def variance_within(self) -> float | None:
        """`variance_within` of a typical world; None where none has enough steps to tell."""
        found = [each for worlds in self.trials for each in worlds.recent_within(_RECENT)]
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
