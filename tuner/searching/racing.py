"""The race: blocks of the rivals and the baseline, until the answer is clear or all is spent."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tuner.decide.interim_analysis import InterimAnalysis, due_alpha, is_due
from tuner.decide.ranking import DOMINATED_BLOCKS, beaten, halved
from tuner.decide.verdict import Comparison
from tuner.plan.measuring import WISHED_BLOCKS
from tuner.searching.calibrating import MOST_NAMED, late_s, traces_s
from tuner.searching.fitting import ANSWER_BLOCKS
from tuner.searching.measurer import Measurer
from tuner.study.conclusion import LEAST_WORLDS, comparison_of, seconds_to_clear
from tuner.study.evidence import (
    far_ahead,
    gains_of,
    leader,
    levels_of,
    not_excluded,
    rivals_of,
    strongest_rival,
    waiting,
)
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import AGAIN
from tuner.study.trial_state import TrialState
from tuner.text import duration, first_of, percent, plural, three_digits

RACE_STARTED = "race_started_s"
LUCK = 1.0  # by how many standard errors a lucky gain is farther from the border of the verdict
LEAST_SAVED = 0.1  # of its limit: for less it is not worth it to end a search earlier


class Turn(NamedTuple):
    """A race of some trials alone, while the others wait."""

    trials: tuple[int, ...]
    is_over: Callable[[], bool]  # asked before each block


def race(measurer: Measurer, turn: Turn | None = None) -> None:
    """Measure blocks, and drop rivals, until the answer is clear, the turn over or the time spent.

    Each block has the baseline twice, unless there is time for few, or it is a turn: every rival is
    compared with it, and it with itself. If it fails, the best of the others is looked for.
    """
    log, budget = measurer.log, measurer.budget
    if not _has_rivals(measurer):
        return
    measurer.begin("race")
    start_s = budget.spent_s
    if turn is None:
        start_s = measurer.load_or_store(RACE_STARTED, start_s)
    traced_s = traces_s(log, budget.total_s)
    blocks_s = WISHED_BLOCKS * log.block_s(_block(log, turn, twice=False))
    # Time for the traces is left, unless an answer gets too little then.
    measurer.reserved_s = traced_s if budget.remaining_s - traced_s >= blocks_s else 0.0
    twice_s = WISHED_BLOCKS * log.block_s(_block(log, turn, twice=True))
    are_many = turn is None and measurer.free_s >= twice_s
    if log.looks and log.looks[-1].total_s < budget.total_s:
        # A larger budget measures those again that an earlier one had no time for.
        for trial in rivals_of(log):
            measurer.readmit(trial)
        _drop(measurer, comparison_of(log), budget.spent_s / budget.total_s)
    _wait(measurer)
    twice = are_many and not _is_known(comparison_of(log))
    while _has_rivals(measurer):
        block = _block(log, turn, twice=twice)
        over = measurer.blocks_left(block, _late_s(measurer, block)) < 1 or _is_spent(measurer)
        if over:
            # A look takes the blocks in their order, and this one is to take all.
            measurer.finish_blocks()
        fraction = (budget.spent_s - start_s) / max(1e-9, budget.total_s - start_s)
        if over or is_due(len(log.worlds("race")), log.looks):
            _analyse(measurer, over=over)
            comparison = comparison_of(log)
            _drop(measurer, comparison, fraction)
            if not over and _end_wait(measurer):
                comparison = comparison_of(log)
            twice = are_many and not _is_known(comparison)
            is_enough = _is_clear(log, comparison) or _is_out_of_reach(measurer)
            ends = over or (is_enough and not measurer.measuring.exhaustive)
            measurer.reporter.comparison(ends=ends)
            if ends:
                if over and not _is_clear(log, comparison):
                    _report_rest(measurer, _block(log, turn, twice=twice))
                break
        if turn is not None and turn.is_over():
            measurer.finish_blocks()
            break
        out = log.those(TrialState.fails)
        measurer.measure_blocks(_block(log, turn, twice=twice))
        if {*log.those(TrialState.fails)}.difference(out):
            # Who was dropped for the sake of one that fails is needed again.
            _drop(measurer, comparison_of(log), fraction)
    measurer.drop_blocks()


def measure_far_ahead(measurer: Measurer, *, is_resumed: bool) -> None:
    """Measure what few worlds have far ahead with the baseline alone, before any other: where the
    time is too short for blocks of all, or an earlier session had none for more."""
    log, found = measurer.log, far_ahead(measurer.log)
    block = _block(log, None, twice=False)
    if found is None or len(block) <= 2:
        return
    measurer.begin("race")
    wished = min(ANSWER_BLOCKS, measurer.measuring.max_blocks or ANSWER_BLOCKS)
    if not is_resumed and measurer.blocks_left(block) >= wished:
        return
    trial, pair = found.trial, [BASELINE, found.trial]
    measurer.observer.on_event(f"{log.configs[trial]} is far ahead, so it is measured first")
    while len(log.trials[trial].samples) < ANSWER_BLOCKS and trial in log.candidates:
        if measurer.blocks_left(pair, _late_s(measurer, pair)) < 1:
            break
        measurer.measure_block(pair)


def _late_s(measurer: Measurer, block: Sequence[int]) -> float:
    """How late a block may end: one of the few without which there is no answer, a little."""
    log = measurer.log
    if log.blocks("race") >= ANSWER_BLOCKS or measurer.group_states():
        return 0.0
    return late_s(measurer, min(log.block_s([trial]) for trial in block))


def _wait(measurer: Measurer) -> None:
    """Leave out, for now, what a forecast and its first world have far behind."""
    log = measurer.log
    found = waiting(log, log.candidates)
    if {*log.candidates} - {BASELINE, *found}:
        reason = "forecast to take {} times as long, so it comes last"
        measurer.eliminate({trial: reason.format(three_digits(r)) for trial, r in found.items()})


def _end_wait(measurer: Measurer) -> bool:
    """Measure what has waited, once nothing else is left to find out."""
    log = measurer.log
    found = waiting(log, log.eliminated)
    if not found or comparison_of(log, frozenset(found)).kind in ("better", "undecided"):
        return False
    for trial in found:
        measurer.readmit(trial)
    names = first_of([str(log.configs[trial]) for trial in found], MOST_NAMED)
    measurer.observer.on_event(f"measured now, to exclude that it is better: {names}")
    return True


def _report_rest(measurer: Measurer, block: Sequence[int]) -> None:
    """Report why a race ends while much of its budget is left: another block would be too long."""
    left_s, block_s = measurer.budget.remaining_s, measurer.log.block_s(block)
    if measurer.free_s < block_s and left_s >= LEAST_SAVED * measurer.budget.total_s:
        kept_s = measurer.reserved_s
        traces = f" ({duration(kept_s)} of it for traces)" if kept_s > 0 else ""
        measurer.observer.on_event(
            f"no further block: it takes {duration(block_s)}, and the budget has {duration(left_s)}"
            f"{traces}"
        )


def _has_rivals(measurer: Measurer) -> bool:
    """Whether there is anything to compare; where all that was fails, what was out is back."""
    log = measurer.log
    if not {*log.candidates} - {BASELINE}:
        for trial in log.runnable:
            measurer.readmit(trial)
    return not {*log.runnable}.intersection(log.candidates) <= {BASELINE}


def _is_spent(measurer: Measurer) -> bool:
    """Whether this budget has taken its last look: more blocks would show nothing."""
    log, budget = measurer.log, measurer.budget
    return bool(log.looks) and not due_alpha(
        log.rules.alpha, log.looks, budget.spent_s, budget.total_s, over=True
    )


def _is_clear(log: StudyLog, comparison: Comparison) -> bool:
    """Whether more blocks would change nothing that matters."""
    if log.states[BASELINE].never_ran():
        best = leader(log)
        measured = 0 if best is None else len(log.trials[best].samples)
        return len(log.candidates) == 1 and measured >= LEAST_WORLDS
    if comparison.kind == "better":
        # Who is measured no more gets no clearer.
        return comparison.is_narrow and {*_open(log, comparison)} <= {*log.eliminated}
    return comparison.kind != "undecided" and not comparison.may_tie


def _is_out_of_reach(measurer: Measurer) -> bool:
    """Whether a limit would be spent for nothing: luck would not make the answer clear in time."""
    left_s = measurer.free_s
    if not measurer.measuring.until_clear or left_s < LEAST_SAVED * measurer.budget.total_s:
        return False
    lucky_s = seconds_to_clear(measurer.log, LUCK)
    if lucky_s is None or lucky_s <= left_s:
        return False
    what = "clear" if comparison_of(measurer.log).kind == "undecided" else "exact"
    said = f"{duration(left_s)} more would not make the answer {what}, even with luck"
    measurer.observer.on_event(said)
    return True


def _is_known(comparison: Comparison) -> bool:
    """Whether the gain is known: what is left is to compare the rivals with each other."""
    return comparison.kind == "better" and comparison.is_narrow


def _open(log: StudyLog, comparison: Comparison) -> list[int]:
    """The rivals that may be more than epsilon better than what would be recommended now."""
    best, rivals = BASELINE, {*rivals_of(log)}
    if comparison.kind == "better" and (rival := strongest_rival(log)) is not None:
        best = rival
    return [trial for trial in not_excluded(log, best) if trial in rivals]


def _block(log: StudyLog, turn: Turn | None, *, twice: bool) -> list[int]:
    if turn is not None:
        return [trial for trial in turn.trials if trial in log.racing]
    if log.states[BASELINE].never_ran() or not twice:
        return [*log.racing]
    return [BASELINE, AGAIN, *(trial for trial in log.racing if trial != BASELINE)]


def _analyse(measurer: Measurer, *, over: bool) -> None:
    """Test every rival on all blocks so far, with the part of alpha that is due."""
    log, budget = measurer.log, measurer.budget
    rows = len(log.worlds("race"))
    # It takes the place of one of the same blocks.
    taken = [look for look in log.looks if look.rows < rows]
    early = measurer.measuring.until_clear
    alpha = due_alpha(
        log.rules.alpha, taken, budget.spent_s, budget.total_s, over=over, early=early
    )
    if rows and alpha and not log.states[BASELINE].never_ran():
        log.looks = (*taken, InterimAnalysis(rows, alpha, budget.spent_s, budget.total_s))
        measurer.store.note("looks", log.looks)


def _drop(measurer: Measurer, comparison: Comparison, fraction: float) -> None:
    """Measure those no more that can change nothing, or hardly; and those again that may."""
    log = measurer.log
    rivals = rivals_of(log)
    reasons = _reasons(log, rivals, comparison, fraction)
    out = {trial: log.states[trial].is_eliminated() for trial in rivals}
    measurer.eliminate({t: reasons[t] for t in rivals if t in reasons and not out[t]})
    for trial in rivals:
        if out[trial] and trial not in reasons:
            measurer.readmit(trial)
            blocks = plural(log.blocks("race"), "block")
            measurer.observer.on_event(f"{log.configs[trial]}: back in the race after {blocks}")


def _reasons(
    log: StudyLog, rivals: Sequence[int], comparison: Comparison, fraction: float
) -> dict[int, str]:
    """Why which of the rivals is measured no more; never all of them."""
    gains, levels, best = gains_of(log), levels_of(log), strongest_rival(log)
    blocks = len(gains.blocks)
    if best is None or blocks < DOMINATED_BLOCKS:
        return {}
    gain = gains.mean(best, BASELINE)
    # Who is behind a rival that gains something is not what will be recommended.
    is_ahead = gain is None or gain >= log.rules.log_epsilon
    reasons = beaten(gains, best, rivals, levels.together) if is_ahead else {}
    if not log.states[BASELINE].never_ran():
        out = {*rivals}.difference(_open(log, comparison), reasons)
        after = f"after {plural(blocks, 'block')}"
        reasons |= {trial: f"{_shown(log, trial)} {after}" for trial in rivals if trial in out}
    if not log.plan.measuring.exhaustive:
        known = [each for each in rivals if len(log.trials[each].samples) >= DOMINATED_BLOCKS]
        left = [trial for trial in known if trial not in reasons]
        reasons |= halved(levels.best, blocks, left, initial=len(rivals), fraction=fraction)
    reasons.pop(best, None)
    return reasons


def _shown(log: StudyLog, trial: int) -> str:
    """What is known of a rival that cannot gain more than epsilon."""
    gain = gains_of(log).gain(trial, BASELINE)
    if gain is not None and gain.high < 0:
        return "shown to be worse than the baseline"
    return f"shown to gain at most {percent(log.rules.epsilon)}"
