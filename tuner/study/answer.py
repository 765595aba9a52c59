"""What a search answers: one frozen value for people, files and programs."""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Self

import pandas as pd

from tuner.decide.gains import Gains
from tuner.machine import DISTURBED_SHARE
from tuner.plan.config import Config
from tuner.plan.objectives import Objective
from tuner.plan.study_plan import StudyPlan
from tuner.study.conclusion import Conclusion
from tuner.study.deadlocks import NeedsThreads
from tuner.study.evidence import Cause, FarAhead
from tuner.study.folder import StudyFolder
from tuner.study.front import Front
from tuner.study.log import BASELINE
from tuner.study.metrics import metric_columns
from tuner.study.records import ForecastChange, ForecastThreads, Sampling
from tuner.study.rows import (
    Observation,
    PassedOver,
    TrialDetail,
    TrialRow,
    ratio_json,
)
from tuner.study.together import Together
from tuner.text import MOST_TELLING
from tuner.trace.forecast.by_callers import ByCallers
from tuner.trace.forecast.change import GAIN
from tuner.world.environment import Environment
from tuner.world.measurement import Measurement

JSON_FORMAT = 2
BUSY_SHARE = 0.1  # of the worlds: the machine was busy if more were disturbed
Contender = Literal["baseline", "best", "challenger"]  # what a trial is in the verdict


@dataclass(frozen=True, kw_only=True)
class MachineUse:
    """What other programs and the hypervisor took of the machine; means over worlds."""

    worlds: int  # the worlds that count, and of which it is known
    disturbed_worlds: int  # those of them in which others took more than a share of the CPUs:
    disturbed_from_share: float = DISTURBED_SHARE
    cpus: int
    others_cpus: float  # CPU seconds per second that other programs used
    stolen_cpus: float  # CPU seconds per second that the hypervisor gave to other virtual machines
    throttled_worlds: int  # the worlds that a CPU quota stopped for a while
    repeated_blocks: int  # the disturbed blocks that were measured again; their worlds do not count
    pressure_some: float | None  # share of the time in which some thread waited for a CPU
    mhz: float | None
    load: float | None  # load average when a world began, those of the study included

    @classmethod
    def of(cls, worlds: Iterable[Measurement], repeated_blocks: int = 0) -> Self | None:
        """The use of the machine by others during these worlds; None where it is not known."""
        known = [world.machine for world in worlds if world.machine is not None]
        states = [state for state in known if state.others_cpus is not None]
        if not states:
            return None

        def mean(name: str) -> float | None:
            values = [getattr(state, name) for state in states]
            numbers = [value for value in values if value is not None]
            return round(statistics.fmean(numbers), 4) if numbers else None

        return cls(
            worlds=len(states),
            disturbed_worlds=sum(state.is_disturbed for state in states),
            cpus=states[-1].cpus,
            others_cpus=mean("others_cpus") or 0.0,
            stolen_cpus=mean("stolen_cpus") or 0.0,
            throttled_worlds=sum(bool(state.throttled_periods) for state in states),
            repeated_blocks=repeated_blocks,
            pressure_some=mean("pressure_some"),
            mhz=mean("mhz"),
            load=mean("load"),
        )

    @property
    def is_busy(self) -> bool:
        """Whether so many worlds were disturbed that the study's intervals suffer."""
        return self.disturbed_worlds > BUSY_SHARE * self.worlds

    @property
    def taken_share(self) -> float:
        """Share of the logical CPUs that others took."""
        return (self.others_cpus + self.stolen_cpus) / self.cpus

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {"busy": self.is_busy, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class StudyAnswer(Conclusion):
    """The answer of a study, finished or interrupted: its conclusion, and what that rests on."""

    study: str
    """The study's name."""
    files: StudyFolder
    """Where its files are."""
    storage: str | None = None
    """The URL of its storage, without a password; None where that is in its folder."""
    plan: StudyPlan
    """What was asked for: the workload, the search space, how to measure."""
    environment: Environment
    """Where it was measured."""
    objective: Objective
    """What configurations are compared by."""
    resume_budget_s: int
    """The least budget with which it is worth it to resume the study."""
    blocks: int
    """Blocks measured, those of the confirmation included."""
    worlds: int
    """Worlds launched, calibrations and traces included."""
    elapsed_s: float
    """Wall time of all sessions, in seconds."""
    measured_at: datetime
    """When its last session ended."""
    front: Front | None = None
    """The Pareto front; None where there is one objective."""
    sampling: Sampling | None = None
    """That a sampler proposed what was measured; None where it was the whole grid."""
    interrupted: bool = False
    """Whether there is still something to measure."""
    needed_s: int | None = None
    """The budget to go on with, in seconds, where it was too short for all that is asked."""
    machine: MachineUse | None = None
    """What others took of the machine meanwhile; None where it is not known."""
    forecasts: Mapping[tuple[float, ...], ForecastThreads] = field(default_factory=dict)
    """What the baseline's trace told of others, by `StudyPlan.forecast_key`."""
    needs_threads: NeedsThreads | None = None
    """That the baseline deadlocks, and how many threads were enough; None where it does not."""
    far_ahead: FarAhead | None = None
    """What few worlds have far ahead of the baseline, where that is not decided; else None."""
    no_forecast: str = ""
    """Why it told nothing of them, or of fewer; empty if it told of all, or was not asked."""
    callers: tuple[ByCallers, ...] = ()
    """What more callers would do, by the same trace."""
    changes: tuple[ForecastChange, ...] = ()
    """What changes of the code would do with the recommended configuration, or else the baseline,
    best first: forecasts from its trace."""
    rows: tuple[TrialRow, ...]
    """One per trial: the fastest first, those that failed or were not measured last."""
    causes: tuple[Cause, ...] = ()
    """Of what worlds failed of configurations that have run; what is most frequent comes first."""
    passed_over: tuple[PassedOver, ...] = ()
    """The trials that look better than the best and are not recommended, as the table has them."""
    together: Together | None = None
    """What each knob gave, where configurations differ in several."""
    observations: tuple[Observation, ...] = ()
    """One per world that counts, by block and trial."""
    paired: Gains = field(repr=False, compare=False)
    """All trials compared, any two of them within blocks."""
    details: Mapping[int, TrialDetail] = field(default_factory=dict)
    """By trial."""

    @cached_property
    def by_trial(self) -> dict[int, TrialRow]:
        """The rows by trial number."""
        return {row.trial: row for row in self.rows}

    @cached_property
    def levels(self) -> dict[int, float]:
        """log(objective) of each measured trial, paired with the baseline's if that ran."""
        measured = [row for row in self.rows if row.is_measured]
        found = {
            row.trial: -math.log(row.against_baseline.ratio.estimate)
            for row in measured
            if row.against_baseline is not None
        }
        return found or {row.trial: self.objective.cost(row.value) for row in measured}

    @property
    def baseline(self) -> Config:
        """The configuration that all others are compared with."""
        return self.by_trial[BASELINE].config

    @property
    def best(self) -> Config | None:
        """The configuration to use; None where `best_trial` is."""
        return self._config(self.best_trial)

    @property
    def challenger(self) -> Config | None:
        """The strongest rival of the baseline."""
        return self._config(self.challenger_trial)

    @property
    def leader(self) -> Config | None:
        """The configuration that is most likely the best."""
        return self._config(self.leader_trial)

    @cached_property
    def not_reached(self) -> list[Config]:
        """The configurations that the budget was too short for, so that no trial has them."""
        if self.needed_s is None or self.sampling is not None:
            return []
        known = {row.config for row in self.rows}
        return [candidate for candidate in self.plan.candidates() if candidate not in known]

    @cached_property
    def forecasts_alone(self) -> dict[Config, ForecastThreads]:
        """What was forecast of the configurations that were not reached."""
        found = {
            config: self.forecasts.get(self.plan.forecast_key(config))
            for config in self.not_reached
            if self.plan.is_forecast_alone(config)
        }
        return {config: each for config, each in found.items() if each is not None and each.is_sure}

    def _config(self, trial: int | None) -> Config | None:
        return None if trial is None else self.by_trial[trial].config

    @property
    def trials(self) -> pd.DataFrame:
        """A row per trial, in the order of `rows`.

        Columns: `trial` (number; 0 is the baseline), `label`, `config` (Config), `outcome`,
        `failure` (message, or how much less work it does; or None), `samples` (worlds measured),
        `worlds_run` and `worlds_failed` (first worlds included, traces not), `value`, `ci_low` and
        `ci_high` (the objective, in its unit), `speedup`, `speedup_ci_low` and `speedup_ci_high`
        (how many times as fast as the baseline, from the `paired_blocks` that measured both),
        `cpu_cores` (CPU seconds per wall second, all ranks), `step_p99_ms`, `cpu_ms_per_step` and
        `rpc_cpu_total_ms` (milliseconds), `peak_rss_mb` (MB), `parallelism_mean`,
        `parallelism_max`, `tracing_overhead` (traced / untraced step time), `others_cpus` (CPU
        seconds per second that other programs used meanwhile), `disturbed_worlds` (how many worlds
        others disturbed), `diagnosis` (text, or None), `tied_with_best`, `broken_limits` (text:
        which limits of the plan it breaks, and by how much; or None), and `eliminated` (text: why
        it left the race, or was in no block; or None). Numbers are NaN where they are not known.
        """
        frame = pd.DataFrame([row.columns() for row in self.rows])
        return frame.astype(dict.fromkeys(metric_columns({}), float))

    @property
    def contenders(self) -> dict[Contender, int]:
        """The baseline's trial, and that of the best, or else of the challenger."""
        found: dict[Contender, int] = {"baseline": BASELINE}
        if self.best_trial:
            found["best"] = self.best_trial
        elif self.challenger_trial is not None:
            found["challenger"] = self.challenger_trial
        return found

    @property
    def why(self) -> dict[Contender, TrialRow]:
        """What was traced of the `baseline`, and of the `best` or else the `challenger`.

        Each has a `label` and a `diagnosis`; one without a trace is left out.
        """
        rows = {name: self.by_trial[trial] for name, trial in self.contenders.items()}
        return {name: row for name, row in rows.items() if row.diagnosis}

    @property
    def better_change(self) -> ForecastChange | None:
        """The change that is forecast to gain more than the configuration does, or None: its
        interval begins above where that of the configuration's gain ends."""
        told = self.speedup.high if self.best_trial and self.speedup else 1.0
        first = next(iter(self.changes), None)
        return first if first is not None and first.times.low > max(told, 1 / GAIN) else None

    @property
    def baseline_failed(self) -> bool:
        """Whether the baseline itself never ran."""
        row = self.by_trial[BASELINE]
        return row.failure is not None and row.worlds_failed == row.worlds_run

    @property
    def baseline_broken(self) -> bool:
        """Whether the baseline breaks a limit or fails too often, so that it cannot be kept."""
        return bool(self.by_trial[BASELINE].broken) or self.by_trial[BASELINE].unreliable

    @property
    def none_feasible(self) -> bool:
        """Whether the study is finished, and nothing that could run keeps its limits."""
        ran = [row for row in self.rows if row.failure is None]
        return not self.interrupted and bool(ran) and all(row.broken for row in ran)

    @property
    def tied(self) -> list[Config]:
        """The configurations tied with the best, without the best itself."""
        best = self.best_trial
        return [row.config for row in self.rows if row.tied_with_best and row.trial != best]

    def to_json(self) -> dict[str, Any]:
        """The document of `--json`."""
        return {
            "format": JSON_FORMAT,
            "study": self.study,
            self.plan.subject.kind: self.plan.subject.reference,
            "objective": self.objective.name,
            "require": [str(limit) for limit in self.plan.measuring.require],
            "unit": self.objective.unit,
            "baseline": self.baseline.to_json(),
            **({"needs_threads": self.needs_threads.to_json()} if self.needs_threads else {}),
            "best": self.best and self.best.to_json(),
            "verdict": self.verdict,
            "speedup": ratio_json(self.speedup),
            "challenger": {
                "config": self.challenger and self.challenger.to_json(),
                "speedup": ratio_json(self.challenger_speedup),
            },
            "why": {name: row.diagnosis for name, row in self.why.items()},
            **({"changes": self._changes()} if self.changes else {}),
            **({"callers": [caller.to_json() for caller in self.callers]} if self.callers else {}),
            "epsilon_achieved": _known_share(self.epsilon_achieved),
            "not_excluded": self._configs(self.not_excluded),
            "not_told_apart": self._configs(self.not_told_apart),
            "leader": self.leader and self.leader.to_json(),
            **({"far_ahead": self._far_ahead_json(self.far_ahead)} if self.far_ahead else {}),
            "noise_floor": ratio_json(self.noise_floor),
            "least_gain": _known_share(self.least_gain),
            "more_s": None if self.more_s is None else round(self.more_s, 1),
            "passed_over": [
                {
                    "config": self.by_trial[trial.trial].config.to_json(),
                    "reason": trial.reason,
                    "preference": trial.preference,
                }
                for trial in self.passed_over
            ],
            "causes": [
                {
                    "failure": cause.failure,
                    "message": cause.message,
                    "worlds": sum(cause.worlds.values()),
                    "configs": self._configs(cause.worlds),
                }
                for cause in self.causes
            ],
            **({} if self.together is None else self.together.to_json()),
            "blocks": self.blocks,
            "worlds": self.worlds,
            "elapsed_s": round(self.elapsed_s, 3),
            "front": self.front and self.front.to_json(),
            **({"not_reached": len(self.not_reached)} if self.not_reached else {}),
            **({"what_if": self._what_if()} if self.forecasts_alone else {}),
            "sampling": self.sampling and self.sampling.to_json(len(self.rows)),
            "machine": self.machine and self.machine.to_json(),
            "trials": [row.to_json() for row in self.rows],
        }

    def _what_if(self) -> list[dict[str, Any]]:
        found = self.forecasts_alone
        return [{"config": config.to_json(), **each.to_json()} for config, each in found.items()]

    def _changes(self) -> list[dict[str, Any]]:
        return [
            {**change.model_dump(), "gains_more": change is self.better_change}
            for change in self.changes
        ]  # fmt: skip

    def _far_ahead_json(self, found: FarAhead) -> dict[str, Any]:
        config = self.by_trial[found.trial].config.to_json()
        return {"config": config, **found._asdict()}

    def _configs(self, trials: Iterable[int]) -> list[dict[str, Any]]:
        return [self.by_trial[trial].config.to_json() for trial in trials]


def _known_share(share: float | None) -> float | None:
    """A share that tells something: what is larger says that nothing is known."""
    return None if share is None or share > MOST_TELLING else share
