"""The answer of a study for Python and for notebooks: its numbers, drawn and shown."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.decide.rules import VerdictKind
from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.study.answer import Contender, StudyAnswer
from tuner.study.rows import TrialRow

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class StudyResult:
    """What `tune` and `load_study` return.

    `str(result)` is the verdict in words; a notebook shows the verdict, the table of all trials and
    the lines to paste.
    """

    answer: StudyAnswer
    """Everything that is known: rows, observations, details, environment."""

    @property
    def study(self) -> str:
        """The study's name."""
        return self.answer.study

    @property
    def plan(self) -> StudyPlan:
        """What was asked for: the workload, the search space, how to measure."""
        return self.answer.plan

    @property
    def folder(self) -> Path:
        """The folder of its files: the report, the traces, `recommended.json`."""
        return self.answer.folder.root

    @property
    def verdict(self) -> VerdictKind | None:
        """`better`, `tie`, `keep-baseline` or `undecided`; None where nothing ran, or not yet."""
        return self.answer.verdict

    @property
    def best(self) -> Config | None:
        """The configuration to use; None where nothing could run, or not yet."""
        return self.answer.best

    @property
    def baseline(self) -> Config:
        """The configuration that all others are compared with."""
        return self.answer.baseline

    @property
    def challenger(self) -> Config | None:
        """The configuration that met the baseline on fresh worlds; None if none did."""
        return self.answer.challenger

    @property
    def speedup(self) -> Interval | None:
        """Baseline time / best time with its interval; None if too few pairs were measured."""
        return self.answer.speedup

    @property
    def challenger_speedup(self) -> Interval | None:
        """Baseline time / challenger time with its interval; None as for `speedup`."""
        return self.answer.challenger_speedup

    @property
    def epsilon_achieved(self) -> float | None:
        """The best is shown to be at most this fraction slower than any other configuration."""
        return self.answer.epsilon_achieved

    @property
    def none_feasible(self) -> bool:
        """Whether nothing that could run keeps the limits of the plan."""
        return self.answer.none_feasible

    @property
    def interrupted(self) -> bool:
        """Whether there is still something to measure."""
        return self.answer.interrupted

    @property
    def blocks(self) -> int:
        """Blocks measured, those of the confirmation included."""
        return self.answer.blocks

    @property
    def worlds(self) -> int:
        """Worlds launched, calibrations and traces included."""
        return self.answer.worlds

    @property
    def elapsed_s(self) -> float:
        """Wall time of all sessions, in seconds."""
        return self.answer.elapsed_s

    @property
    def rows(self) -> tuple[TrialRow, ...]:
        """One per trial: the fastest first, those that failed or were not measured last."""
        return self.answer.rows

    @property
    def trials(self) -> "pd.DataFrame":
        """A row per trial, in the order of `rows`.

        Columns: `trial` (number; 0 is the baseline), `label`, `config` (Config), `outcome`,
        `failure` (message, or None), `samples` (worlds measured), `worlds_run` and `worlds_failed`
        (first worlds included, traces not), `value`, `ci_low` and `ci_high`
        (the objective, in its unit), `speedup`, `speedup_ci_low` and `speedup_ci_high` (how many
        times as fast as the baseline, from the `paired_blocks` that measured both), `cpu_cores`
        (CPU seconds per wall second, all ranks), `step_p99_ms`, `cpu_ms_per_step` and
        `rpc_cpu_total_ms` (milliseconds), `peak_rss_mb` (MB), `parallelism_mean`,
        `parallelism_max`, `tracing_overhead` (traced / untraced step time), `others_cpus` (CPU
        seconds per second that other programs used meanwhile), `disturbed_worlds` (how many worlds
        others disturbed), `diagnosis` (text, or None),
        `tied_with_best`, `broken_limits` (text: which limits of the plan it breaks, and by how
        much; or None), and `eliminated` (text: why it left the race, or was in no block; or None).
        Numbers are NaN where they are not known.
        """
        return self.answer.trials

    @property
    def why(self) -> dict[Contender, TrialRow]:
        """What was traced of the `baseline`, and of the `best` or else the `challenger`.

        Each has a `label` and a `diagnosis`; one without a trace is left out.
        """
        return self.answer.why

    def to_json(self) -> dict[str, Any]:
        """The document of `--json`, as data."""
        return self.answer.to_json()

    def plot_scaling(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the objective of every configuration, with its interval.

        Args:
            axes: Where to draw; new axes of pyplot if None.

        Returns:
            The axes.

        Raises:
            UsageError: Nothing was measured.
        """
        # Late: a program that only asks for the verdict need not wait for matplotlib.
        from tuner.present.figures import plot_scaling

        return plot_scaling(self.answer, axes)

    def plot_parallelism(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the parallelism of the servers against their worker threads.

        Args:
            axes: Where to draw; new axes of pyplot if None.

        Returns:
            The axes.

        Raises:
            UsageError: There are no traces of several numbers of threads.
        """
        from tuner.present.figures import plot_parallelism

        return plot_parallelism(self.answer, axes)

    def __repr__(self) -> str:
        best = None if self.best is None else str(self.best)
        return f"StudyResult(study={self.study!r}, verdict={self.verdict!r}, best={best!r})"

    def __str__(self) -> str:
        from tuner.present.wording import verdict_sentence

        return verdict_sentence(self.answer)

    def _repr_html_(self) -> str:
        from tuner.present.report.study_report import notebook_html

        return notebook_html(self.answer)
