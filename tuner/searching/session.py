"""One session of a search: calibrate, race, confirm; outcomes are kept as they come."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tuner.decide.race import RACE_FROM_BLOCKS, Decision, halve, look_alpha, near_optimal, race
from tuner.decide.verdict import may_stop
from tuner.searching.progress import Observer, Snapshot
from tuner.searching.runner import LEAST_PAIRS, Runner
from tuner.study.conclusion import Conclusion, compare_pairs, conclude, pick_challenger
from tuner.study.log import BASELINE, Confirmation
from tuner.study.records import CALIBRATION_BLOCK, TRACE_BLOCK, Phase, Record
from tuner.study.storage.store import StudyStore
from tuner.study.stored import stored_log
from tuner.world.measurement import Failure

# The confirmation carries the claim, so it gets the larger part of the budget.
RACE_SHARE = 0.4
# A world's step count aims a little high: the next world may be faster than the calibrating one.
STEPS_MARGIN = 1.2
# Settings whose world takes this many times as long as the baseline's are hopeless, or stuck; but
# a start may take its time, so never below LEAST_DEADLINE_S.
DOMINATED_WORLD = 20
LEAST_DEADLINE_S = 10.0
# How many worlds a recommendation rests on at least where there is no baseline to compare with.
LEAST_BLOCKS = 4


@dataclass
class Budget:
    """Wall time, over all sessions of a study."""

    total_s: float
    spent_before_s: float
    started_s: float
    clock: Callable[[], float]

    @property
    def spent_s(self) -> float:
        """Seconds spent so far."""
        return self.spent_before_s + self.clock() - self.started_s

    @property
    def remaining_s(self) -> float:
        """Seconds left; below zero when the budget is overdrawn."""
        return self.total_s - self.spent_s


class Session:
    """Drives a study from where its store stands to its conclusion."""

    def __init__(
        self, runner: Runner, store: StudyStore, observer: Observer, budget: Budget
    ) -> None:
        self._runner = runner
        self._measuring = runner.plan.measuring
        self._store = store
        self._observer = observer
        self._budget = budget
        self.log = stored_log(store, runner.plan)
        self._phase: Phase = "calibration"
        store.repair(self.log.records, runner.plan)

    def run(self) -> None:
        """Measure what is still to be measured, and close the study."""
        if not self._store.running():
            self._observer.on_event("the study is finished: nothing is left to measure")
            return
        try:
            self._calibrate()
            self._trace()
            if self.log.confirmation is None:
                self._race()
            self._confirm()
        finally:
            self._note_elapsed()
        self._close(conclude(self.log))

    def add(self, record: Record) -> None:
        """Keep an outcome."""
        self._store.add(record, self._runner.plan)
        self.log.records.append(record)
        if isinstance(record.outcome, Failure):
            failure = record.outcome
            label = str(self.log.configs[record.trial])
            if record.phase == "trace":
                label += ": no trace"
            self._observer.on_event(f"{label}: {failure.failure}: {failure.message}")
        self._observer.on_snapshot(self._snapshot())

    def _calibrate(self) -> None:
        done = {record.trial for record in self.log.records if record.phase == "calibration"}
        for trial in self.log.candidates:
            if trial in done:
                continue
            # What failed or hung before must not use up the time that the others need.
            calibrated = [other for other in self.log.alive if self.log.calibration(other)]
            least_s = self._block_s(calibrated) + LEAST_PAIRS * self._block_s(calibrated[:2])
            if calibrated and self._budget.remaining_s < least_s:
                self._eliminate(trial, "not measured: the budget was spent before its turn")
            else:
                self._measure(trial, CALIBRATION_BLOCK, None)

    def _trace(self) -> None:
        """Look inside each settings once, while there is time to decide as well."""
        self._phase = "trace"
        for trial in self.log.alive:
            calibration = self.log.calibration(trial)
            if calibration is None or self.log.traced(trial) is not None:
                continue
            least_s = self._block_s(self.log.racing) + LEAST_PAIRS * self._block_s(
                [BASELINE, trial]
            )
            if self._budget.remaining_s < least_s:
                self._observer.on_event(
                    f"{self.log.configs[trial]}: not traced: the budget leaves no time for it"
                )
                continue
            outcome = self._runner.trace(
                self.log.configs[trial], calibration.median_step_s, self._deadline_s(trial)
            )
            self.add(Record(trial=trial, block=TRACE_BLOCK, phase="trace", outcome=outcome))

    def _race(self) -> None:
        self._phase = "race"
        self._finish_open_block(self.log.racing)
        # Noted once, so that a resumed race goes on with the share and the cap it began with.
        start_s = self._noted_once("race_started_s", self._budget.spent_s)
        race_s = max(1e-9, (self._measuring.budget_s - start_s) * RACE_SHARE)
        affordable = race_s / max(1e-9, self._block_s(self.log.racing))
        if (max_blocks := self._measuring.max_blocks) is not None:
            affordable = min(affordable, max_blocks * RACE_SHARE)
        cap = int(self._noted_once("race_cap", max(1, math.floor(affordable))))
        while self._is_open():
            blocks, spent_s = self.log.blocks("race"), self._budget.spent_s - start_s
            if self._budget.remaining_s < self._block_s(self.log.racing):
                return
            if blocks and len(self.log.candidates) > 1:
                spent = blocks / cap if max_blocks is not None else 0.0
                decision = self._decide(cap, max(spent, spent_s / race_s))
                for trial, reason in decision.dropped.items():
                    self._eliminate(trial, reason)
                # A block that would outlive the race's share is not begun.
                if decision.finished or spent_s + self._block_s(self.log.racing) > race_s:
                    return
            self._measure_block(self.log.racing)

    def _is_open(self) -> bool:
        """Whether the race has something left to find out: which rival meets the baseline."""
        rivals = [trial for trial in self.log.candidates if trial != BASELINE]
        if BASELINE not in self.log.alive and self.log.blocks("race") < LEAST_BLOCKS:
            return bool(rivals)
        return len(rivals) > 1

    def _decide(self, cap: int, spent: float) -> Decision:
        matrix, candidates, initial = self.log.matrix("race"), self.log.candidates, self._initial()
        if cap < RACE_FROM_BLOCKS:
            return halve(matrix, candidates, initial=initial, fraction=spent)
        costs = self.log.log_cost()
        return race(matrix, candidates, costs, initial=initial, cap=cap, rules=self.log.rules)

    def _initial(self) -> int:
        """The number of settings that could run at all."""
        trials = range(len(self.log.configs))
        return sum(self.log.calibration(trial) is not None for trial in trials)

    def _near_optimal(self) -> list[int]:
        """The candidates that the race has shown to be at most epsilon from the best."""
        candidates, cap = self.log.candidates, self._store.noted("race_cap")
        if len(candidates) < 2 or cap < RACE_FROM_BLOCKS:
            return []  # halving finds an argmin, and certifies nothing
        rules, blocks = self.log.rules, self.log.blocks("race")
        alpha = look_alpha(blocks, initial=self._initial(), cap=int(cap), rules=rules)
        matrix = self.log.matrix("race")
        return near_optimal(matrix, candidates, alpha=alpha, log_epsilon=rules.log_epsilon)

    def _confirm(self) -> None:
        self._phase = "confirmation"
        if self.log.confirmation is not None:
            self._finish_open_block([BASELINE, self.log.confirmation.challenger])
            self._extend(self.log.confirmation)
        while BASELINE in self.log.alive:
            confirmation = self.log.confirmation
            if confirmation is None or confirmation.challenger not in self.log.alive:
                confirmation = self._next_confirmation()
            if confirmation is None:
                return
            if self._confirmed(confirmation):
                return
            self._measure_block([BASELINE, confirmation.challenger])

    def _confirmed(self, confirmation: Confirmation) -> bool:
        """Whether the answer is clear, or no further pair may be measured."""
        comparison = compare_pairs(self.log, over=False)
        return (
            comparison.pairs >= confirmation.cap
            or self._budget.remaining_s < self._block_s([BASELINE, confirmation.challenger])
            or may_stop(comparison, confirmation.cap)
        )

    def _next_confirmation(self) -> Confirmation | None:
        challenger = pick_challenger(self.log, self._near_optimal())
        if challenger is None:
            return None
        cap = self._budget.remaining_s / max(1e-9, self._block_s([BASELINE, challenger]))
        if self._measuring.max_blocks is not None:
            measured = self.log.blocks("race") + self.log.blocks("confirmation")
            cap = min(cap, self._measuring.max_blocks - measured)
        confirmation = Confirmation(challenger, max(0, math.floor(cap)))
        if self.log.eliminated.pop(challenger, None):
            self._store.eliminate(challenger, None)
        self._keep(confirmation)
        self._observer.on_event(
            f"confirming {self.log.configs[challenger]} against the baseline "
            f"{self.log.configs[BASELINE]} on fresh worlds"
        )
        return confirmation

    def _extend(self, confirmation: Confirmation) -> None:
        """Let a resumed confirmation use a budget that has grown since it began."""
        if self._measuring.budget_s > float(self._store.noted("confirmation_budget_s") or 0):
            pair_s = self._block_s([BASELINE, confirmation.challenger])
            more = math.floor(self._budget.remaining_s / max(1e-9, pair_s))
            cap = max(confirmation.cap, self.log.blocks("confirmation") + more)
            self._keep(confirmation._replace(cap=cap))

    def _keep(self, confirmation: Confirmation) -> None:
        self.log.confirmation = confirmation
        self._store.note("confirmation", confirmation._asdict())
        self._store.note("confirmation_budget_s", self._measuring.budget_s)

    def _eliminate(self, trial: int, reason: str) -> None:
        self.log.eliminated[trial] = reason
        self._store.eliminate(trial, reason)
        label = str(self.log.configs[trial])
        if trial == BASELINE:
            self._observer.on_event(f"{label}: {reason}; measured on, as the baseline")
        else:
            self._observer.on_event(f"{label}: eliminated, {reason}")

    def _block_s(self, trials: Sequence[int]) -> float:
        return sum(self.log.world_s(trial) for trial in trials)

    def _finish_open_block(self, trials: Sequence[int]) -> None:
        """Measure what an interrupted session left out of its last block, and nothing twice."""
        current = [record for record in self.log.records if record.phase == self._phase]
        if current:
            block = max(record.block for record in current)
            have = {record.trial for record in current if record.block == block}
            alive = set(self.log.alive)
            self._measure_all([t for t in trials if t not in have and t in alive], block)

    def _measure_block(self, trials: Sequence[int]) -> None:
        last = max((record.block for record in self.log.records), default=CALIBRATION_BLOCK)
        self._measure_all(trials, last + 1)
        self._note_elapsed()

    def _measure_all(self, trials: Sequence[int], block: int) -> None:
        order = list(trials)
        random.Random(f"{self._measuring.seed}/{block}").shuffle(order)
        for trial in order:
            calibration = self.log.calibration(trial)
            assert calibration is not None
            wanted_s = self._measuring.min_time_s * STEPS_MARGIN
            self._measure(trial, block, max(1, math.ceil(wanted_s / calibration.median_step_s)))

    def _measure(self, trial: int, block: int, steps: int | None) -> None:
        outcome = self._runner.run(self.log.configs[trial], block, steps, self._deadline_s(trial))
        phase = "calibration" if block == CALIBRATION_BLOCK else self._phase
        self.add(Record(trial=trial, block=block, phase=phase, outcome=outcome))

    def _note_elapsed(self) -> None:
        self._store.note("elapsed_s", self._budget.spent_s)
        self._store.note("measured_at", datetime.now(UTC).isoformat(timespec="seconds"))

    def _deadline_s(self, trial: int) -> float:
        baseline = self.log.calibration(BASELINE)
        if trial == BASELINE or baseline is None:
            return math.inf
        return max(LEAST_DEADLINE_S, DOMINATED_WORLD * baseline.world_s)

    def _noted_once(self, key: str, value: float) -> float:
        if (known := self._store.noted(key)) is not None:
            return float(known)
        self._store.note(key, value)
        return value

    def _close(self, conclusion: Conclusion | None) -> None:
        """End every trial that is still running; the recommended one is never pruned."""
        for trial in self._store.running():
            value, numbers = self.log.value(trial), self.log.numbers(trial)
            is_best = conclusion is not None and trial == conclusion.best
            out = trial in self.log.eliminated and trial != BASELINE and not is_best
            if value is None or out:
                self._store.prune(trial, numbers)
            else:
                self._store.complete(trial, value, numbers)

    def _snapshot(self) -> Snapshot:
        leader = self.log.best_of(self.log.candidates)
        return Snapshot(
            phase=self._phase,
            block=self.log.blocks("race") + self.log.blocks("confirmation"),
            worlds=len(self.log.records),
            traced=sum(record.phase == "trace" for record in self.log.records),
            configs=len(self.log.configs),
            survivors=len(self.log.racing),
            leader=None if leader is None else str(self.log.configs[leader]),
            leader_value=None if leader is None else self.log.value(leader),
            unit=self._measuring.objective.unit,
            remaining_s=max(0.0, self._budget.remaining_s),
        )
