"""Measures worlds and blocks of worlds, and keeps every outcome as it comes."""

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime

from tuner.decide.looks import Look
from tuner.plan.config import Config
from tuner.searching.budget import Budget
from tuner.searching.groups import BlockWorld
from tuner.searching.parallel import ParallelBlocks
from tuner.searching.progress import Compared, Observer, Snapshot
from tuner.searching.runner import Runner, steps_in
from tuner.searching.world_times import WorldTimes
from tuner.study.conclusion import comparison_of
from tuner.study.evidence import leader, strongest_rival
from tuner.study.log import BASELINE, BLOCK_PHASES
from tuner.study.records import AGAIN, CALIBRATION_BLOCK, TRACE_BLOCK, Phase, Record
from tuner.study.sampled import Sampling
from tuner.study.storage.store import StudyStore
from tuner.study.stored import stored_log
from tuner.text import first_of, plural
from tuner.world.likeness import likeness
from tuner.world.measurement import Failure

# A world's step count aims a little high: the next world may be faster than the calibrating one.
STEPS_MARGIN = 1.2
# So many disturbed blocks are measured again at most, as a share of the others.
MOST_REPEATED = 0.25
# And only while there is time for so many more.
LEAST_LEFT = 4
# An event names no more than these.
_MOST_NAMED = 3


class Measurer:
    """What the stages of a search share: the log, the budget, and how a world is measured.

    Args:
        runner: Runs the worlds.
        store: Keeps what is measured.
        observer: Is told what happens.
        budget: The time that may be spent.
    """

    def __init__(
        self, runner: Runner, store: StudyStore, observer: Observer, budget: Budget
    ) -> None:
        self.store = store
        self.observer = observer
        self.budget = budget
        self.plan = runner.plan
        self.measuring = runner.plan.measuring
        self.log = stored_log(store, runner.plan)
        self._runner = runner
        self.times = WorldTimes(self.log, self.measuring, budget)
        self._parallel = ParallelBlocks(runner, self.log, store, observer, self)
        self.reserved_s = 0.0
        """Seconds of the budget that blocks must leave."""
        self._phase: Phase = "calibration"
        store.repair(self.log.records, runner.plan)
        self._leader = leader(self.log)
        self._compared: Compared | None = None
        self._alike: dict[Hashable, tuple[str, list[str]]] = {}
        """By what failures have in common: of which configuration was told, and the others."""

    def begin(self, phase: Phase) -> None:
        """Note which phase the next worlds belong to."""
        self._phase = phase
        self.tell_alike()

    def keep(self, record: Record) -> None:
        """Keep an outcome."""
        self.store.add(record, self._runner.plan)
        self.log.add(record)

    def add(self, record: Record) -> None:
        """Keep an outcome, and tell the observer."""
        barred = record.trial in self.log.barred
        self.keep(record)
        if not barred and (broken := self.log.barred.get(record.trial)):
            said = "; ".join(each.text for each in broken)
            self.observer.on_event(f"{self.log.configs[record.trial]}: infeasible, {said}")
        if isinstance(record.outcome, Failure):
            self._tell_failure(record, record.outcome)
        self.observer.on_snapshot(self._snapshot())

    def tell_alike(self) -> None:
        """Tell the observer how many failed as others did, of which it has not been told."""
        for first, others in self._alike.values():
            if others:
                some = first_of(others, _MOST_NAMED)
                self.observer.on_event(
                    f"{plural(len(others), 'more world')} failed as that of {first} did: {some}"
                )
                others.clear()

    def _tell_failure(self, record: Record, failure: Failure) -> None:
        """Tell of the first of those failures that are alike; the others are counted."""
        label = str(self.log.configs[record.trial])
        kind = (record.phase == "trace", likeness(failure.failure, failure.message))
        if kind in self._alike:
            self._alike[kind][1].append(label)
            return
        self._alike[kind] = (label, [])
        told = self._runner.folder.failure_text(failure.failure, failure.message)
        self.observer.on_event(f"{label}{': no trace' * (record.phase == 'trace')}: {told}")

    def calibrate(self, trial: int) -> bool:
        """Run a trial's first world, which tells how long a step takes; False if cut short."""
        config, deadline_s = self.log.configs[trial], self.times.deadline_s(trial)
        return self._run(BlockWorld(trial, False, config, None, deadline_s), CALIBRATION_BLOCK)

    def trace(self, trial: int, *, operators: bool) -> None:
        """Run a world of a calibrated trial that is traced and not timed."""
        config, step_s = self.log.configs[trial], self.log.step_s(trial)
        deadline_s, left_s = self.times.deadline_s(trial), self.times.left_s()
        least_s = min(deadline_s, left_s)
        outcome, group = self._parallel.on_one(
            lambda runner: runner.trace(config, step_s, least_s, operators=operators)
        )
        if not self.times.is_cut_short(outcome, deadline_s, left_s):
            self.add(
                Record(trial=trial, block=TRACE_BLOCK, phase="trace", outcome=outcome, group=group)
            )

    def measure_block(self, trials: Sequence[int]) -> None:
        """Measure each of these calibrated trials once, in a random order; -1 is the baseline
        again."""
        self._measure(trials, self.log.next_block)
        self.note_elapsed()

    def measure_blocks(self, trials: Sequence[int]) -> None:
        """Have every free group begin such a block, and wait until any group has finished one.

        With one group it is `measure_block`.
        """
        if len(self._parallel) == 1:
            self.measure_block(trials)
            return
        for group in self._parallel.free:
            if self.blocks_left(trials) >= 1:
                self._begin(group, self.log.next_block, trials)
        self._parallel.hear()
        self.note_elapsed()

    def finish_blocks(self) -> None:
        """Wait until every group has finished its block."""
        self._parallel.finish()

    def drop_blocks(self) -> None:
        """Have the blocks that are being measured count no more: the answer needs none of them."""
        self._parallel.drop_running()

    def close(self) -> None:
        """End what runs, and keep what was measured."""
        self._parallel.close()

    def finish_open_block(self, trials: Sequence[int]) -> None:
        """Measure what an interrupted session left out of its last blocks, and nothing twice.

        A block is finished by the group that began it.
        """
        alive = {*self.log.alive, *([AGAIN] if BASELINE in self.log.alive else [])}
        columns = [trial for trial in trials if trial in alive]
        for block, left in self._parallel.left_open(self._phase, columns):
            if len(self._parallel) == 1:
                self._measure(left, block)
            elif (group := self._parallel.group_of(block)) in self._parallel.free:
                self._begin(group, block, left)
            else:
                self._parallel.drop(block)

    def blocks_left(self, trials: Sequence[int]) -> float:
        """How many more blocks of these trials the plan allows, by its time and its number of
        blocks."""
        blocks = (self.budget.remaining_s - self.reserved_s) / max(1e-9, self.log.block_s(trials))
        if self.measuring.max_blocks is not None:
            measured = sum(map(self.log.blocks, BLOCK_PHASES))
            blocks = min(blocks, self.measuring.max_blocks - measured)
        return max(0.0, blocks)

    def share_ends(self, started: str, share: float) -> tuple[float, float]:
        """Where a stage ends that may take a share of what is left when it first begins.

        Args:
            started: The name of the note that says when it began.
            share: The share, a fraction.

        Returns:
            How many seconds of the budget are spent then; and how many blocks of its phase are
            measured, infinitely many where the plan has no most.
        """
        start_s = self.noted_once(started, self.budget.spent_s)
        end_s = start_s + (self.budget.total_s - start_s) * share
        return end_s, (self.measuring.max_blocks or math.inf) * share

    def eliminate(self, trial: int, reason: str) -> None:
        """Take a trial out of the race."""
        self.eliminate_silently({trial: reason})
        self.observer.on_event(f"{self.log.configs[trial]}: eliminated, {reason}")

    def eliminate_silently(self, reasons: Mapping[int, str]) -> None:
        """Take many trials out of the race, without a line for each."""
        for trial, reason in reasons.items():
            self.log.eliminated[trial] = reason
            self.store.eliminate(trial, reason)
        self._leader = leader(self.log)

    def readmit(self, trial: int) -> None:
        """Let a trial that was eliminated win again."""
        if self.log.eliminated.pop(trial, None):
            self.store.eliminate(trial, None)

    def propose(self, configs: Sequence[Config]) -> list[int]:
        """Add configurations to the study; returns their trials."""
        self.store.add_configs(configs, self.plan)
        self.log.extend(configs)
        return list(range(len(self.log.configs) - len(configs), len(self.log.configs)))

    def keep_sampling(self, sampling: Sampling) -> None:
        """Note how far the exploration is."""
        self.log.sampling = sampling
        self.store.note("sampling", sampling.model_dump(mode="json"))

    def keep_look(self, look: Look) -> None:
        """Note a look at all rivals; it takes the place of one at the same blocks."""
        earlier = (each for each in self.log.looks if each.rows < look.rows)
        self.log.looks = (*earlier, look)
        self.store.note("looks", self.log.looks)

    def tell_comparison(self, more_s: float | None) -> None:
        """Tell the observer what a look has shown, and after how many more seconds it is clear."""
        rival, comparison = strongest_rival(self.log), comparison_of(self.log)
        if rival is not None and comparison.speedup and BASELINE not in self.log.failures:
            self._compared = Compared(
                rival=str(self.log.configs[rival]),
                speedup=comparison.speedup,
                more_s=more_s,
                is_decided=comparison.kind != "undecided",
                left_s=self.budget.remaining_s - self.reserved_s,
            )
            self.observer.on_snapshot(self._snapshot())

    def note_elapsed(self) -> None:
        """Note the time spent so far, for a session that resumes the study."""
        self.store.note("elapsed_s", self.budget.spent_s)
        self.store.note("measured_at", datetime.now(UTC).isoformat(timespec="seconds"))

    def noted_once(self, key: str, value: float) -> float:
        """The number noted by this session or an earlier one; `value`, if there is none yet."""
        if (known := self.store.noted(key)) is not None:
            return float(known)
        self.store.note(key, value)
        return value

    def _measure(self, trials: Sequence[int], block: int) -> None:
        for world in self._worlds_of(trials, block):
            if not self.skips(world.trial):
                self._run(world, block)
        self.end_block(block, trials)

    def _worlds_of(self, trials: Sequence[int], block: int) -> list[BlockWorld]:
        """The worlds of a block, in its order."""
        order = list(trials)
        random.Random(f"{self.measuring.seed}/{block}").shuffle(order)
        wanted_s = self.times.measured_s() * STEPS_MARGIN
        worlds = []
        for column in order:
            trial = BASELINE if column == AGAIN else column
            step_s = self.log.step_s(trial)
            steps = None if step_s is None else steps_in(wanted_s, step_s)
            steps_s = (steps or 0) * (step_s or 0.0)
            config, deadline_s = self.log.configs[trial], self.times.deadline_s(trial, steps_s)
            worlds.append(BlockWorld(trial, column == AGAIN, config, steps, deadline_s))
        return worlds

    def skips(self, trial: int) -> bool:
        """Whether a trial needs no further world: it has failed, or the budget is spent."""
        # Worlds that fail late may have spent it: a later session goes on.
        return trial in self.log.failures or self.budget.is_spent

    def end_block(self, block: int, trials: Sequence[int]) -> None:
        """Have a block of these trials measured again if it was disturbed."""
        # An exploration goes on to other configurations, and claims nothing of these.
        counts = bool(trials) and self._phase != "exploration"
        if counts and self.log.disturbed(block) and self.blocks_left(trials) >= LEAST_LEFT:
            self._put_aside(block)
        self._leader = leader(self.log)

    def _begin(self, group: int, block: int, trials: Sequence[int]) -> None:
        worlds = self._worlds_of(trials, block)
        self._parallel.begin(group, self._phase, block, trials, worlds)

    def _put_aside(self, block: int) -> None:
        """Have a block that others disturbed count no more, so that another takes its place.

        Whether it does was decided by the machine alone, not by the times.
        """
        if len(self.log.set_aside) < max(1, MOST_REPEATED * self.log.blocks("race")):
            self.log.put_aside(block)
            self.store.note("set_aside", self.log.set_aside)
            self.observer.on_event(
                f"block {block} was disturbed by other programs; another takes its place"
            )

    def _run(self, world: BlockWorld, block: int) -> bool:
        """Run a world; whether it was not cut short, and so says something."""
        left_s = self.times.left_s()
        least_s = min(world.deadline_s, left_s)
        outcome, group = self._parallel.on_one(
            lambda runner: runner.run(world.config, block, world.steps, least_s)
        )
        if self.times.is_cut_short(outcome, world.deadline_s, left_s):
            return False
        self.add(
            Record(
                trial=world.trial,
                block=block,
                phase=self._phase,
                outcome=outcome,
                again=world.again,
                group=group,
            )
        )
        return True

    def _snapshot(self) -> Snapshot:
        ahead = None if self._leader in self.log.failures else self._leader
        sampling = self.log.sampling
        exploring = sampling is not None and sampling.went_on is None
        return Snapshot(
            phase="exploration" if exploring else self._phase,
            block=sum(map(self.log.blocks, BLOCK_PHASES)),
            worlds=len(self.log.records),
            calibrated=self.log.calibrated,
            traced=self.log.rows.traced,
            configs=len(self.log.configs),
            survivors=len(self.log.runnable if self._phase == "trace" else self.log.racing),
            leader=None if ahead is None else str(self.log.configs[ahead]),
            leader_value=None if ahead is None else self.log.value(ahead),
            unit=self._runner.plan.objective.unit,
            remaining_s=max(0.0, self.budget.remaining_s),
            until_clear=self.measuring.until_clear,
            looks=len(self.log.looks),
            compared=self._compared if self._phase == "race" else None,
            groups=self._parallel.states(),
        )
