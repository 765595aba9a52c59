"""Why the recommended configuration, and not one that stands above it in the table."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tuner.decide.ranking import SAME_COST
from tuner.study.evidence import tested_gain
from tuner.study.log import BASELINE, StudyLog
from tuner.study.rows import Paired, PairedTrials, TrialRow

Reason = Literal[
    "limit", "unreliable", "few-blocks", "not-told-apart", "within-epsilon", "not-shown"
]
Preference = Literal["baseline", "less-cpu", "fewer-threads"]


class PassedOver(NamedTuple):
    """A trial that looks better than the recommended one, and why it is not recommended."""

    trial: int
    reason: Reason
    paired: Paired | None
    """How many times as fast as the recommended one; None where no block measured both."""
    preference: Preference | None
    """What speaks for the recommended one where the times do not decide."""

    def to_json(self, row: TrialRow) -> dict[str, Any]:
        """The entry in `--json`."""
        return {
            "config": row.config.to_json(),
            "reason": self.reason,
            "preference": self.preference,
        }


def passed_over(
    log: StudyLog, rows: Sequence[TrialRow], best: int | None, paired: PairedTrials
) -> tuple[PassedOver, ...]:
    """The trials that look better than the recommended one, `best`, in the order of the table."""
    chosen = next((row for row in rows if row.trial == best), None)
    if chosen is None:
        return ()
    above = rows[: rows.index(chosen)]
    # What fails too often does not count as measured, but for the baseline.
    barred = [row for row in rows if row.unreliable or (row.is_measured and row.broken)]
    better = [row for row in barred if _ratio(row) > _ratio(chosen)]
    looking = [*(row for row in above if row.is_measured and row not in barred), *better]
    return tuple(_passed_over(log, row, chosen, paired) for row in looking)


def _ratio(row: TrialRow) -> float:
    """How many times as fast as the baseline; NaN, which is more than nothing, if not known."""
    return math.nan if row.against_baseline is None else row.against_baseline.ratio.estimate


def _passed_over(
    log: StudyLog, row: TrialRow, chosen: TrialRow, paired: PairedTrials
) -> PassedOver:
    found = _compared(log, row, chosen, paired)
    reason: Reason = "not-shown"
    if row.broken:
        reason = "limit"
    elif row.unreliable:
        reason = "unreliable"
    elif found is None or not found.ratio.is_told:
        reason = "few-blocks"
    elif found.ratio.low <= 1:
        reason = "not-told-apart"
    elif found.ratio.estimate < 1 + log.rules.epsilon:
        reason = "within-epsilon"
    is_open = reason in ("not-told-apart", "within-epsilon")
    preference = _preference(log, row.trial, chosen.trial) if is_open else None
    return PassedOver(row.trial, reason, found, preference)


def _compared(
    log: StudyLog, row: TrialRow, chosen: TrialRow, paired: PairedTrials
) -> Paired | None:
    """Beside the baseline as the table has it; else as it was tested, or as far as measured."""
    if chosen.trial == BASELINE:
        return row.against_baseline
    found = paired.compare(row.trial, chosen.trial)
    tested = tested_gain(log, row.trial, chosen.trial)
    if found is None or tested is None:
        return found
    return Paired(tested.exp(), found.blocks)


def _preference(log: StudyLog, other: int, best: int) -> Preference | None:
    if best == BASELINE:
        return "baseline"
    cost, threads = log.log_cost(), log.threads()
    if cost[best] < cost[other] - SAME_COST:
        return "less-cpu"
    # NaN is no more than anything: where the CPU is not known, it is no argument.
    if not cost[best] > cost[other] + SAME_COST and threads[best] < threads[other]:
        return "fewer-threads"
    return None
