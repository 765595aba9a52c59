"""Measures worlds and blocks of worlds, and keeps every outcome as it comes."""

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from tuner.plan.config import Config
from tuner.searching.progress_reports import GroupState, Observer, ProgressReporter
from tuner.searching.runner import Runner, TimedWorld, steps_in
from tuner.searching.wall_time import Budget, WorldTimes
from tuner.study.evidence import fails_more_often
from tuner.study.log import BASELINE, BLOCK_PHASES
from tuner.study.records import (
    AGAIN,
    CALIBRATION_BLOCK,
    TRACE_BLOCK,
    Phase,
    Record,
    Sampling,
    is_repeated,
)
from tuner.study.storage.store import StudyStore
from tuner.study.stored import stored_log
from tuner.study.trial_state import TrialState
from tuner.text import plural
from tuner.world.measurement import Failure, Outcome

STEPS_MARGIN = 1.2  # of step counts: the next world may be faster than the calibrating one
OPEN = "open_blocks"  # the note of those that have begun, and have not ended
SESSIONS = "sessions"  # the note of how many sessions have measured a study
MOST_REPEATED = 0.25  # so many disturbed blocks are measured again at most, as a share of others
LEAST_LEFT = 4  # and only while there is time for so many more blocks


def run_in_turn(worlds: Iterable[TimedWorld], run: Callable[[TimedWorld], Outcome | None]) -> None:
    """Run the worlds of a block, and in the place of one that failed another, but for a hang: a
    block stays complete where a program fails now and then. `run` returns None for one passed over.
    """
    left = [*worlds]
    for world in left:
        outcome = run(world)
        if outcome is not None and is_repeated(outcome, world.attempt):
            left.append(world._replace(attempt=world.attempt + 1))


class Measurer:
    """What the stages of a search share: the log, the budget, and how a world is measured."""

    def __init__(
        self, runner: Runner, store: StudyStore, observer: Observer, budget: Budget
    ) -> None:
        self.store, self.observer, self.budget = store, observer, budget
        self.plan, self.measuring = runner.plan, runner.plan.measuring
        self.log = stored_log(store, runner.plan)
        self.times = WorldTimes(self.log, runner.plan, budget)
        self.reserved_s = 0.0  # seconds of the budget that blocks must leave
        self._runner = runner
        self._phase: Phase = "calibration"
        store.repair(self.log.records, runner.plan)
        self._session = int(store.noted(SESSIONS) or 0) + 1
        store.note(SESSIONS, self._session)
        if left_open := store.noted(OPEN):
            # A block is of one session: another day has another machine.
            self._leave_out(*left_open)
        self.reporter = ProgressReporter(
            observer, self.log, runner.folder, budget, groups=self.group_states
        )

    def begin(self, phase: Phase) -> None:
        """Note which phase the next worlds belong to."""
        self._phase = phase
        self.reporter.alike()

    def keep(self, record: Record) -> dict[int, TrialState]:
        """Keep an outcome, which is of this session; returns what the trials were whose state it
        has changed."""
        record = record.model_copy(update={"session": self._session})
        self.store.add(record, self.plan)
        return self.log.add(record)

    def add(self, record: Record) -> None:
        """Keep an outcome, and notify the observer of what it shows."""
        for trial, before in self.keep(record).items():
            config, now = self.log.configs[trial], self.log.states[trial]
            if now.lost and not before.lost:
                self.observer.on_event(f"{config}: {now.lost.text}")
            if now.barred and not before.barred:
                said = "; ".join(each.text for each in now.barred)
                self.observer.on_event(f"{config}: infeasible, {said}")
        if isinstance(record.outcome, Failure):
            self.reporter.failure(record, record.outcome)
        self.reporter.progress(self._phase)

    def calibrate(self, trial: int) -> bool:
        """Run a trial's first world, which shows how long a step takes; False if cut short."""
        return self._run(self._world(trial, CALIBRATION_BLOCK)) is not None

    def trace(self, trial: int, *, operators: bool) -> None:
        """Run a world of a calibrated trial that is traced and not timed."""
        config, step_s = self.log.configs[trial], self.log.step_s(trial)
        deadline_s = self.times.traced_deadline_s(trial)

        def traced(runner: Runner) -> Outcome:
            least_s = min(deadline_s, self.times.left_s())
            return runner.trace(config, step_s, least_s, operators=operators)

        # A program that fails now and then is traced, too.
        for attempt in itertools.count():
            left_s = self.times.left_s()
            outcome, group = self._on_one(traced)
            # An incomplete trace has been taken again already.
            is_lost = isinstance(outcome, Failure) and outcome.failure == "trace-failed"
            is_over = is_lost or not is_repeated(outcome, attempt)
            if is_over or self.budget.remaining_s < outcome.world_s:
                break
        if not self.times.is_cut_short(outcome, deadline_s, left_s):
            self.add(TimedWorld(trial, TRACE_BLOCK, config).record("trace", outcome, group))

    def measure_block(self, trials: Sequence[int]) -> None:
        """Measure these calibrated trials in a random order; -1 is the baseline again."""
        block = self.log.next_block
        self._note_open(block)
        run_in_turn(
            self._worlds_of(trials, block),
            lambda world: None if self._skips(world.trial) else self._run(world),
        )
        self._note_open()
        self._end_block(block, trials)
        self.note_elapsed()

    def measure_blocks(self, trials: Sequence[int]) -> None:
        """Measure such blocks: one, or one by every free group, until any group has finished."""
        self.measure_block(trials)

    def finish_blocks(self) -> None:
        """Wait until every group has finished its block."""

    def drop_blocks(self) -> None:
        """Have the blocks that are being measured count no more, and end their worlds."""

    def close(self) -> None:
        """End what runs, and keep what was measured."""

    def group_states(self) -> tuple[GroupState, ...]:
        """Where each of several groups is; empty where there is one."""
        return ()

    def blocks_left(self, trials: Sequence[int], late_s: float = 0.0) -> float:
        """How many more blocks of these trials there is time for, and the plan allows, where the
        last one may end so late."""
        blocks = (self.free_s + late_s) / max(1e-9, self.log.block_s(trials))
        if self.measuring.max_blocks is not None:
            measured = sum(map(self.log.blocks, BLOCK_PHASES))
            blocks = min(blocks, self.measuring.max_blocks - measured)
        return max(0.0, blocks)

    def share_ends(self, started: str, share: float) -> tuple[float, float]:
        """At which seconds of the budget, and blocks of its phase, a stage ends that may take a
        share of what is left when it first begins; `started` names the note of when that was."""
        start_s = self.load_or_store(started, self.budget.spent_s)
        end_s = start_s + (self.budget.total_s - start_s) * share
        return end_s, (self.measuring.max_blocks or math.inf) * share

    def eliminate(self, reasons: Mapping[int, str], *, silently: bool = False) -> None:
        """Take trials out of the race; with a line for each, unless they are many."""
        for trial, reason in reasons.items():
            self.log.eliminate(trial, reason)
            self.store.eliminate(trial, reason)
            if not silently:
                self.observer.on_event(f"{self.log.configs[trial]}: eliminated, {reason}")
        if reasons:
            self.reporter.note_leader()

    def readmit(self, trial: int) -> None:
        """Let a trial that was eliminated win again."""
        if self.log.states[trial].eliminated:
            self.log.eliminate(trial, None)
            self.store.eliminate(trial, None)

    def propose(self, configs: Sequence[Config]) -> list[int]:
        """Add configurations to the study; returns their trials."""
        first = len(self.log.configs)
        self.store.add_configs(configs, self.plan)
        self.log.extend(configs)
        return [*range(first, len(self.log.configs))]

    def keep_sampling(self, sampling: Sampling) -> None:
        """Note how far the exploration is."""
        self.log.sampling = sampling
        self.store.note("sampling", sampling.model_dump(mode="json"))

    @property
    def free_s(self) -> float:
        """Seconds of the budget that blocks may take."""
        return self.budget.remaining_s - self.reserved_s

    def note_elapsed(self) -> None:
        """Note the time spent so far, for a session that resumes the study."""
        self.store.note("elapsed_s", self.budget.spent_s)
        self.store.note("measured_at", datetime.now(UTC).isoformat(timespec="seconds"))

    def load_or_store(self, key: str, value: float) -> float:
        """The number noted by this session or an earlier one; `value`, if there is none yet."""
        if (known := self.store.noted(key)) is not None:
            return float(known)
        self.store.note(key, value)
        return value

    def _note_open(self, *blocks: int) -> None:
        """Note which blocks have begun: a later session leaves them out, if this one does not come
        to their ends."""
        self.store.note(OPEN, sorted(blocks))

    def _leave_out(self, *blocks: int) -> None:
        """Have blocks that nobody finishes count no more, now and in later sessions."""
        self.log.drop(*blocks)
        self.store.note("dropped", self.log.dropped)
        self._note_open()

    def _worlds_of(self, trials: Sequence[int], block: int) -> list[TimedWorld]:
        """The worlds of a block, in its order."""
        order = list(trials)
        random.Random(f"{self.measuring.seed}/{block}").shuffle(order)
        wanted_s = self.times.measured_s() * STEPS_MARGIN
        return [self._world(column, block, wanted_s) for column in order]

    def _world(self, column: int, block: int, wanted_s: float | None = None) -> TimedWorld:
        """A world of a block whose steps are to last so long; None: it calibrates."""
        trial = BASELINE if column == AGAIN else column
        step_s, steps, steps_s = self.log.step_s(trial), None, 0.0
        if wanted_s is not None and step_s is not None:
            steps = steps_in(wanted_s, step_s)
            steps_s = steps * step_s
        deadline_s = self.times.deadline_s(trial, steps_s)
        config, attempt = self.log.configs[trial], self.log.rows.failed(block, column)
        return TimedWorld(trial, block, config, steps, deadline_s, column == AGAIN, attempt)

    def _skips(self, trial: int) -> bool:
        """Whether a trial needs no further world: it is out, or the budget is spent."""
        # Worlds that fail late may have spent it: what is left of the block is not measured.
        return not self.log.states[trial].is_alive() or self.budget.is_spent

    def _end_block(self, block: int, trials: Sequence[int]) -> None:
        """Judge what failed in a block of these trials; have it measured again if disturbed."""
        self._judge_failures(block, trials)
        # An exploration goes on to other configurations, and claims nothing of these.
        counts = bool(trials) and self._phase != "exploration"
        most = max(1, MOST_REPEATED * self.log.blocks("race"))
        is_disturbed = counts and self.log.rows.disturbed(block)
        has_time = is_disturbed and self.blocks_left(trials) >= LEAST_LEFT
        if has_time and len(self.log.set_aside) < most:
            # Whether it counts was decided by the machine alone, not by the times.
            self.log.put_aside(block)
            self.store.note("set_aside", self.log.set_aside)
            self.observer.on_event(
                f"block {block} was disturbed by other programs; another takes its place"
            )
        self.reporter.note_leader()

    def _judge_failures(self, block: int, trials: Sequence[int]) -> None:
        """Take out who is now shown to deadlock, or to fail more often than the others; of the
        baseline that is noted."""
        log = self.log
        for trial in {BASELINE if column == AGAIN else column for column in trials}:
            columns = [trial, AGAIN] if trial == BASELINE else [trial]
            has_failed = any(log.rows.failed(block, column) for column in columns)
            state = log.states[trial]
            if state.unreliable or state.wrong_answer or not state.has_run or not has_failed:
                continue  # it is out already, or needs no judging
            deadlocks = state.has_deadlocked()
            if not deadlocks and not fails_more_often(log, trial):
                continue
            log.distrust(trial)
            self.store.note("unreliable", log.unreliable)
            failed = len(log.trials[trial].failures)
            why = "a deadlock is proved" if deadlocks else "more often than the others"
            self.observer.on_event(
                f"{log.configs[trial]}: failed in {failed} of "
                f"{plural(failed + log.trials[trial].ran, 'world')}, {why}"
            )

    def _run(self, world: TimedWorld) -> Outcome | None:
        """Run a world, and keep what came of it; None if it was cut short, which says nothing."""
        left_s = self.times.left_s()
        outcome, group = self._on_one(lambda runner: runner.run(world, left_s))
        if self.times.is_cut_short(outcome, world.deadline_s, left_s):
            return None
        self.add(world.record(self._phase, outcome, group))
        return outcome

    def _on_one(self, do: Callable[[Runner], Outcome]) -> tuple[Outcome, int | None]:
        """What one group yields, and which of several that is, from 1."""
        return do(self._runner), None
