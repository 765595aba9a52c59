"""Runs the worlds of a plan, to be timed or to be traced, and reads the numbers of their traces."""

import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tuner.errors import UsageError
from tuner.files import own_prefix
from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.plan.workload_spec import RankSpec
from tuner.study.folder import StudyFolder
from tuner.study.records import ForecastChange, Phase, Record
from tuner.trace.analyze.call_times import (
    breakdown,
    outermost,
    outermost_ms,
    rpc_cpu_total_ms,
    rpc_p99_ms,
)
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.server_parallelism import remote_parallelism
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.by_callers import ByCallers, by_callers
from tuner.trace.forecast.forecasts import Model
from tuner.trace.forecast.ranked import MOST_S, rows_of
from tuner.trace.model.trace import Trace
from tuner.world.launcher import Launcher, TraceOrder, WorldOrder
from tuner.world.measurement import CallPart, Failure, Measurement, Outcome, Quantiles, TraceNumbers

CALIBRATION_S = 0.05  # how long the steps of a calibration last; a longer step is the only one
TRACED_TIME_S = 0.2  # enough calls for a p99 of sorts, and a file that a browser opens at once
MOST_TRACED_STEPS = 50
TRACE_ATTEMPTS = 3  # an incomplete trace says something of the tracer, not of the configuration
_MOST_CHANGES = 8  # of a trace are kept
LEAST_STEP_S = 0.5e-6  # what a step takes that does nothing, with the two readings of the clock


class TimedWorld(NamedTuple):
    """A world that is to be timed; its fields are its record's, but for these two."""

    trial: int
    block: int
    config: Config
    steps: int | None = None  # None for a calibration, and for a program
    deadline_s: float = math.inf  # it can only shorten the plan's
    again: bool = False
    attempt: int = 0

    def record(self, phase: Phase, outcome: Outcome, group: int | None = None) -> Record:
        """What is kept of it, once it has run."""
        return Record(
            trial=self.trial, block=self.block, phase=phase, outcome=outcome, again=self.again,
            group=group, attempt=self.attempt,
        )  # fmt: skip


@dataclass(frozen=True)
class Runner:
    """Runs worlds of a plan, whose files go to a folder."""

    plan: StudyPlan
    launcher: Launcher
    folder: StudyFolder

    def run(self, world: TimedWorld, left_s: float = math.inf) -> Outcome:
        """Run a world to time it, in what is left of the budget; for a traced objective it is
        traced unless it calibrates, without operators, which would cost more than they show."""
        # All configurations of a block get the same inputs, and no other block gets these.
        seed = self.plan.measuring.seed + max(0, world.block)
        deadline_s = min(world.deadline_s, left_s)
        failures = self.failure_folder(world)
        order = self._order(world.config, seed, world.steps, failures, deadline_s)
        objective, subject = self.plan.objective, self.plan.subject
        if not objective.traced:
            outcome = self._outcome(order)
        elif world.steps is None:
            return self._outcome(order)
        else:
            with scratch_folder() as scratch:
                trace = TraceOrder(path=scratch.root / "trace.json", operators=False)
                outcome = self._outcome(replace(order, trace=trace))
        if isinstance(outcome, Measurement) and objective.read(outcome) is None:
            raise UsageError(
                f"the objective {objective.name} is read from RPC calls, and the {subject.kind} "
                f"{subject.reference} makes none that Python can see"
            )
        return outcome

    def failure_folder(self, world: TimedWorld) -> Path:
        """Where a world leaves what shows why it failed."""
        return self.folder.failure(
            world.config, world.block, again=world.again, attempt=world.attempt
        )

    def trace(
        self, config: Config, step_s: float | None, deadline_s: float, *, operators: bool = True
    ) -> Outcome:
        """Run a world to trace it, and perhaps its operators, into the folder. `step_s` is about
        what a step takes, None for a program; `deadline_s` can only shorten the plan's."""
        steps = None
        if step_s is not None:
            steps = min(MOST_TRACED_STEPS, math.ceil(TRACED_TIME_S / step_s))
        path, failures = self.folder.trace(config), self.folder.trace_failure(config)
        self.folder.manifest.add(path)
        order = self._order(config, self.plan.measuring.seed, steps, failures, deadline_s)
        trace = TraceOrder(path=path, operators=operators)
        return self._outcome(replace(order, trace=trace, objective=None))

    def _order(
        self, config: Config, seed: int, steps: int | None, failures: Path | None, deadline_s: float
    ) -> WorldOrder:
        measuring = self.plan.measuring
        return WorldOrder(
            subject=self.plan.subject,
            config=config,
            seed=seed,
            steps=steps,
            # A calibration only shows about how long a step takes.
            min_time_s=min(measuring.min_time_s, CALIBRATION_S if steps is None else math.inf),
            deadline_s=min(deadline_s, measuring.deadline_s),
            failure_folder=failures,
            objective=None if self.plan.subject.has_steps else self.plan.objective,
        )

    def _outcome(self, order: WorldOrder) -> Outcome:
        """What a world yields; in what is left of its time an incomplete trace is taken again, and
        a world that was killed from outside is run once more."""
        outcome, left_s, was_killed = self._launched(order), order.deadline_s, False
        for _ in range(1, TRACE_ATTEMPTS):
            left_s -= outcome.world_s
            if isinstance(outcome, Measurement) or left_s <= outcome.world_s:
                break
            if outcome.failure != "trace-failed" and (was_killed or not outcome.is_untimely):
                break
            was_killed = was_killed or outcome.is_untimely
            outcome = self._launched(replace(order, deadline_s=left_s))
        return outcome

    def _launched(self, order: WorldOrder) -> Outcome:
        """What one world yields, with the numbers of its trace."""
        outcome = self.launcher.run(order)
        if isinstance(outcome, Failure):
            if order.failure_folder is not None:
                self.folder.manifest.add(*order.failure_folder.glob("*"))
            return outcome
        if outcome.machine is not None:
            try:
                # A quota lets processes use more CPUs for a moment, but no more than there are.
                outcome.check_cpus(max(outcome.machine.cpus, os.cpu_count() or 1))
            except AssertionError as error:
                message = f"its ranks report what cannot be: {error}"
                return Failure(failure="crashed", message=message, world_s=outcome.world_s)
        if order.trace is None:
            return outcome
        try:
            numbers = numbers_of(order.trace.path, self.plan.subject.ranks)
        except UsageError as error:
            # What a world leaves behind ends no search.
            message = f"the trace cannot be read: {error}"
            return Failure(failure="trace-failed", message=message, world_s=outcome.world_s)
        return outcome.model_copy(update={"trace": numbers})


@contextmanager
def scratch_folder() -> Iterator[StudyFolder]:
    """A folder for worlds of which nothing is kept."""
    with tempfile.TemporaryDirectory(prefix=own_prefix()) as scratch:
        yield StudyFolder(Path(scratch))


def steps_in(seconds: float, step_s: float) -> int:
    """How many steps last so long, one at least; to time a step takes LEAST_STEP_S."""
    return max(1, math.ceil(seconds / max(step_s, LEAST_STEP_S)))


def numbers_of(path: Path, ranks: Sequence[RankSpec]) -> TraceNumbers:
    """The numbers of a trace file, with a diagnosis by roles. UsageError if it is no trace."""
    return numbers_in(read_trace(path), ranks)


def numbers_in(trace: Trace, ranks: Sequence[RankSpec]) -> TraceNumbers:
    """See `numbers_of`."""
    mean, most = remote_parallelism(trace)
    diagnosis = diagnose(trace, patterns_of(ranks))
    return TraceNumbers(
        rpc_cpu_total_ms=_known(rpc_cpu_total_ms(trace)),
        rpc_p99_ms=_known(rpc_p99_ms(trace)),
        parallelism_mean=_known(mean),
        parallelism_max=_known(most),
        diagnosis=diagnosis.text,
        enough_threads=diagnosis.enough_threads,
        losses=trace.losses,
        calls=len(trace.calls),
        failed_calls=int(trace.calls["status"].isin(("raised", "timed-out")).sum()),
        open_calls=_open_calls(trace),
        call_ms=Quantiles.of(outermost_ms(trace).tolist()),
        call_parts_ms=_call_parts_ms(trace),
    )


def changes_by(
    path: Path, ranks: Sequence[RankSpec], most_s: float
) -> tuple[tuple[ForecastChange, ...], tuple[ByCallers, ...]]:
    """What a trace file tells of changes of the program, the best first, and of more callers;
    nothing without one.

    No forecast begins after that many seconds.
    """
    until_s = time.monotonic() + min(most_s, MOST_S)
    try:
        trace = read_trace(path)
    except UsageError:
        return (), ()
    model = Model.of(trace, patterns_of(ranks))
    found, _ = rows_of(trace, model, until_s - time.monotonic())
    callers = by_callers(trace, model, until_s)
    return tuple(map(ForecastChange.of, found[:_MOST_CHANGES])), tuple(callers)


def patterns_of(ranks: Sequence[RankSpec]) -> list[tuple[str, str]]:
    """Pairs of a role and a pattern of its RPC names; see `tuner.roles.role_of`."""
    return [(rank.role, re.escape(rank.name)) for rank in ranks]


def _open_calls(trace: Trace) -> int | None:
    """The driver's calls that its last step did not wait for; None of a program, without steps."""
    if trace.steps is None:
        return None
    mine = trace.calls[trace.calls["client_rank"] == 0]
    return int((mine["end_ns"].isna() | (mine["end_ns"] > trace.window_ns[1])).sum())


def _call_parts_ms(trace: Trace) -> dict[CallPart, float]:
    """Where the time of an outermost call goes on average; empty if not known."""
    table = breakdown(outermost(trace.calls))
    if table.empty:
        return {}
    weights = table["calls"]
    has_cpu = bool(table["on_cpu_us"].notna().all())
    inside: tuple[CallPart, ...] = ("on_cpu", "run_queue", "off_cpu") if has_cpu else ("served",)
    return {
        part: float((table[f"{part}_us"] * weights).sum() / weights.sum()) / 1e3
        for part in ("transport", "queue", *inside, "pending")
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
