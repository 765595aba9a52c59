"""The worlds of a study by block and by trial: what counts, and what is read of each once."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tuner.decide.lost_calls import Calls, CallTally
from tuner.decide.statistics import FloatArray, variance_within
from tuner.plan.objectives import OBJECTIVES
from tuner.study.records import TRACE_BLOCK, Phase, Record
from tuner.world.measurement import Failure, Measurement, Outcome

Costs = Sequence[float]
"""log(objective) of a world, its negative if more is better; and that of a second objective."""
_CPU = OBJECTIVES["cpu_s"]
_within = lru_cache(maxsize=4096)(variance_within)


class BlockRows:
    """What each block has measured of which column. Blocks are numbered as they begin.

    Of blocks that run at once the first ones count: none does after one that is not finished.
    """

    def __init__(self) -> None:
        # By phase and block: the columns that were measured, and what was, by column.
        self._begun: dict[Phase, dict[int, set[int]]] = defaultdict(dict)
        self._rows: dict[Phase, dict[int, dict[int, Costs]]] = defaultdict(dict)
        self._open: set[int] = set()
        # How many worlds failed, by block and column; how many went well, and were disturbed.
        self._failed: Counter[tuple[int, int]] = Counter()
        self._measured: Counter[int] = Counter()
        self._disturbed: Counter[int] = Counter()
        self.version = 0  # another one after each change
        self.edits = 0  # how often what was measured has changed, but by another world

    def add(self, record: Record, costs: Costs | None = None) -> None:
        """Take in a world, with its costs if it counts."""
        begun = self._begun[record.phase].setdefault(record.block, set())
        if not record.is_repeated:
            begun.add(record.column)
        if isinstance(record.outcome, Failure):
            self._failed[record.block, record.column] += 1
        else:
            self._measured[record.block] += 1
            self._disturbed[record.block] += record.outcome.is_disturbed
        if costs is not None:
            self._rows[record.phase].setdefault(record.block, {})[record.column] = costs
        self.version += 1

    def changed(self) -> None:
        """Note that what was measured, or who counts of its columns, is another one."""
        self.version += 1
        self.edits += 1

    def open(self, phase: Phase, block: int) -> None:
        """Begin a block, or go on with one."""
        self._begun[phase].setdefault(block, set())
        self._open.add(block)
        self.version += 1

    def close(self, block: int) -> None:
        """End a block: it is finished."""
        self._open.discard(block)
        self.version += 1

    def drop(self, blocks: Sequence[int]) -> None:
        """Forget these blocks, but for their failures."""
        tables: list[dict[int, Any]] = [*self._begun.values(), *self._rows.values()]
        for block in blocks:
            self._open.discard(block)
            for table in (*tables, self._measured, self._disturbed):
                table.pop(block, None)
        self.changed()

    def failed(self, block: int, column: int) -> int:
        """How many worlds of a column failed in a block."""
        return self._failed[block, column]

    def disturbed(self, block: int) -> bool:
        """Whether a block has a disturbed world, and few others are, so that a repetition helps."""
        here = self._disturbed[block]
        elsewhere = self._measured.total() - self._measured[block]
        return here > 0 and self._disturbed.total() - here <= elsewhere / 2

    def begun(self, phase: Phase) -> int:
        """The number of blocks of a phase, those that are being measured included."""
        return len(self._begun[phase])

    @property
    def traced(self) -> int:
        """The number of trials that have been traced, with or without success."""
        return len(self._begun["trace"].get(TRACE_BLOCK, ()))

    def measured(self, phase: Phase) -> dict[int, set[int]]:
        """The columns that each block of a phase has measured, in the order of the blocks."""
        return dict(sorted(self._begun[phase].items()))

    @property
    def highest(self) -> int:
        """The highest number of a block of any phase; -1 where there is none."""
        return max((max(blocks) for blocks in self._begun.values() if blocks), default=-1)

    def matrix(self, phases: tuple[Phase, ...], trials: int, objective: int) -> FloatArray:
        """The rows of the blocks that count, in order; see `StudyLog.worlds`."""
        end = min(self._open, default=math.inf)
        known = {block: row for phase in phases for block, row in self._rows[phase].items()}
        rows = [known[block] for block in sorted(known) if block < end]
        found = np.full((len(rows), trials + 1), np.nan)
        for place, row in enumerate(rows):
            found[place, list(row)] = [costs[objective] for costs in row.values()]
        return found


@dataclass
class TrialWorlds:
    """The worlds of one trial, by what they are for."""

    calibration: Outcome | None = None  # the first one that went well, or else the last one
    first_place: tuple[int, int | None] | None = None  # the session and the group that ran it
    trace: Outcome | None = None
    ran: int = 0  # the worlds that went well, but traces; of blocks that count no more, too
    failures: list[Failure] = field(default_factory=list)  # of the worlds that failed, but traces
    wrong_answer: Failure | None = None  # the first of these that gave a wrong answer
    deadlock: Failure | None = None  # the first of these that is a proved deadlock
    samples: list[Measurement] = field(default_factory=list)
    # Of each sample: its block; log(objective), less is better; log(CPU seconds per step or run).
    blocks: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    cpu_costs: list[float] = field(default_factory=list)
    samples_s: float = 0.0  # how long the samples took together
    repeated_s: float = 0.0  # how long the worlds of blocks took that failed
    calls: CallTally = field(default_factory=CallTally)  # of a program
    traced_calls: CallTally = field(default_factory=CallTally)  # of what is only counted in traces

    def add(self, record: Record, costs: Costs | None = None) -> None:
        """Take in one world of the trial, with its costs if it counts."""
        outcome = record.outcome
        self._count(outcome, is_traced=record.phase == "trace")
        if record.phase == "trace":
            self.trace = self.trace or outcome
            return
        if isinstance(outcome, Failure):
            self.failures.append(outcome)
            if outcome.failure == "wrong-answer":
                self.wrong_answer = self.wrong_answer or outcome
            elif outcome.failure == "deadlocked":
                self.deadlock = self.deadlock or outcome
        else:
            self.ran += 1
        if not isinstance(self.calibration, Measurement):
            self.calibration, self.first_place = outcome, (record.session, record.group)
        if record.phase == "calibration":
            return
        if isinstance(outcome, Failure):
            self.repeated_s += outcome.world_s
        elif costs is not None:
            self.samples.append(outcome)
            self.blocks.append(record.block)
            self.costs.append(costs[0])
            used_s = _CPU.read(outcome)
            self.cpu_costs.append(math.nan if used_s is None else _CPU.cost(used_s))
            self.samples_s += outcome.world_s

    def _count(self, outcome: Outcome, *, is_traced: bool) -> None:
        """Take in the calls of one world, where it is known how many failed. Those of a program are
        counted in each; one that is traced takes longer, so that more of them may."""
        if isinstance(outcome, Failure):
            return
        run, trace = outcome.program, outcome.trace
        if run is not None:
            if run.failed is not None and not is_traced:
                # Of a program that never shuts down the calls are known by function alone.
                made = max(run.calls, sum(run.functions.values()))
                self.calls.add(Calls(made, min(run.failed, made), run.functions))
        elif trace is not None and trace.calls is not None and trace.failed_calls is not None:
            self.traced_calls.add(Calls(trace.calls, trace.failed_calls))

    def drop(self, block: int) -> None:
        """Have the samples of a block count no more."""
        while block in self.blocks:
            place = self.blocks.index(block)
            self.samples_s -= self.samples[place].world_s
            for column in (self.blocks, self.samples, self.costs, self.cpu_costs):
                del column[place]

    def world_s(self, min_time_s: float) -> float:
        """Seconds that a world of such steps takes, and those that fail before it; 0: none ran."""
        if self.samples:
            return (self.samples_s + self.repeated_s) / len(self.samples)
        if not isinstance(self.calibration, Measurement):
            return 0.0
        # Its steps were few, and those of its other worlds last longer.
        least_s = min_time_s if self.calibration.step_s else 0.0
        longer_s = max(0.0, least_s - self.calibration.wall_s)
        return self.calibration.world_s + longer_s + self.repeated_s

    @property
    def cpu_cost(self) -> float:
        """log(CPU seconds per step or run), the median; NaN where it is not known of all."""
        is_known = self.cpu_costs and not any(map(math.isnan, self.cpu_costs))
        return statistics.median(self.cpu_costs) if is_known else math.nan

    def recent_within(self, count: int) -> list[float]:
        """`variance_within` of those of the latest samples that have enough steps to tell."""
        known = [_within(sample.step_s) for sample in self.samples[-count:]]
        return [within for within in known if within is not None]
