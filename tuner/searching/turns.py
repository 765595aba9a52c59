"""Turns, for a budget that is too short for all: what promises most is measured beside the baseline
alone until it is decided, and then the next one, beside what has won."""

from collections.abc import Collection

from tuner.decide.gains import LEAST_BLOCKS
from tuner.decide.statistics import blocks_needed
from tuner.plan.config import Config
from tuner.plan.measuring import WISHED_BLOCKS
from tuner.searching.beginning import BETS, NAMED
from tuner.searching.calibrating import calibrate, calibrate_each, has_time_for, is_new, why_broken
from tuner.searching.fitting import in_order_of_promise, promise_of
from tuner.searching.measurer import Measurer
from tuner.searching.racing import Turn, race
from tuner.study.conclusion import comparison_of
from tuner.study.evidence import gains_of, strongest_rival
from tuner.study.log import BASELINE, StudyLog
from tuner.study.storage.opening import NEEDED_S

_LUCK = 0.2  # a bet is given up that needs better luck than one in five has
_MOST_WORLDS = 9  # of the baseline, while a value that a person named has none


def take_turns(measurer: Measurer) -> None:
    """Measure one bet after the other beside the baseline and what has won, each until it is
    decided, while there is time."""
    log, had = measurer.log, set[Config]()
    is_one_race = measurer.measuring.exhaustive or measurer.plan.second_objective is not None
    if is_one_race or log.reaches_all or not _has_baseline(measurer):
        return
    while (bet := _next_bet(measurer, had)) is not None:
        had.add(bet)
        _give_place(measurer, bet)
        _measure(measurer, bet)
        if _is_unseen_due(measurer):
            _try_unseen(measurer)


def _has_baseline(measurer: Measurer) -> bool:
    """Whether the baseline has run, so that others can be compared with it."""
    if is_new(measurer.log) and has_time_for(measurer, 1):
        measurer.begin("calibration")
        calibrate_each(measurer, [BASELINE])
    return BASELINE in measurer.log.runnable


def _beside(log: StudyLog) -> list[int]:
    """What a bet is measured beside: the baseline, and what is shown to be better."""
    won = strongest_rival(log) if comparison_of(log).kind == "better" else None
    return [BASELINE] if won is None else [BASELINE, won]


def _next_bet(measurer: Measurer, had: Collection[Config]) -> Config | None:
    """What is measured next, first what adds to what has won; None where nothing promises enough,
    or there is no time for blocks that would tell something of it."""
    log, plan = measurer.log, measurer.plan
    *_, reference = beside = _beside(log)
    world_s, is_first = log.world_s(BASELINE), not log.blocks("race")
    least_s = (1 if is_first else LEAST_BLOCKS) * (log.block_s(beside) + world_s)
    if measurer.free_s < least_s + plan.subject.has_steps * world_s or why_broken(log):
        return None
    own = {*plan.baseline.resolved(plan.subject)}
    kept = {*log.configs[reference].resolved(plan.subject)} - own
    is_named = bool(measurer.store.noted(NAMED))
    found = dict[Config, tuple[bool, int, float]]()
    for config in _untried(measurer):
        promise = promise_of(plan, log.forecasts, config)
        # What is forecast to change nothing is for who has named it.
        is_known = promise.forecast and (kept or not is_named)
        is_left = promise.kind == 2 and not is_known
        if config not in had and (promise.is_bet or is_left):
            adds = kept <= {*config.resolved(plan.subject)}
            found[config] = not adds, promise.kind, promise.forecast
    return min(found, key=found.__getitem__, default=None)


def _untried(measurer: Measurer) -> list[Config]:
    """The rivals that no block has measured, as setting up has ordered them."""
    log, plan = measurer.log, measurer.plan
    known = [
        log.configs[trial]
        for trial in log.candidates
        if trial != BASELINE and not log.trials[trial].samples
    ]
    noted = map(Config.from_json, measurer.store.noted(BETS) or ())
    later = [*noted, *in_order_of_promise(plan, log.forecasts)]
    return [*dict.fromkeys([*known, *(each for each in later if each not in log.configs)])]


def _trial_of(measurer: Measurer, config: Config) -> int:
    """The trial of a configuration, a new one where it has none yet."""
    log = measurer.log
    if config not in log.configs:
        measurer.propose([config])
        if log.reaches_all:
            measurer.store.note(NEEDED_S, None)
    return log.configs.index(config)


def _measure(measurer: Measurer, config: Config) -> None:
    """Measure a bet until it is decided, or another one's turn is more worth the time."""
    log, bet = measurer.log, _trial_of(measurer, config)
    beside = _beside(log)
    if log.calibration(bet) is None and measurer.plan.subject.has_steps:
        measurer.begin("calibration")
        calibrate_each(measurer, [bet], until_spent=True)
    elif log.calibration(bet) is None:
        measurer.begin("race")  # a program's first world is like any other
        measurer.measure_block([*beside, bet])

    def is_over() -> bool:
        return _is_unseen_due(measurer) or _is_decided(measurer, bet, beside[-1])

    if bet in log.runnable and not is_over():
        race(measurer, Turn((*beside, bet), is_over))


def _is_decided(measurer: Measurer, bet: int, reference: int) -> bool:
    """Whether a bet has won, or has lost, or the budget is too short to show that it wins, by what
    its blocks say of it beside a reference: the baseline, or what has won before."""
    log, gains = measurer.log, gains_of(measurer.log)
    state = log.states[bet]
    if not state.is_candidate() or state.breaks:
        return True
    seen = gains.so_far(reference).interval(bet, _LUCK, _LUCK)
    if seen is None:
        return False
    blocks, epsilon = int(gains.so_far(reference).counts[bet]), log.rules.log_epsilon
    if seen.low > 0 and _beside(log)[-1] == bet:
        return True
    if reference != BASELINE and blocks >= WISHED_BLOCKS:
        return True
    left = measurer.blocks_left([*_beside(log), bet])
    variance = float(gains.so_far(reference).variance[bet])
    return seen.high < epsilon or blocks_needed(variance / 1.5, seen.high) > blocks + left


def _is_unseen_due(measurer: Measurer) -> bool:
    """Whether a value that a person named has had no world, though the baseline had many."""
    is_many = len(measurer.log.trials[BASELINE].samples) >= _MOST_WORLDS
    return is_many and bool(measurer.store.noted(NAMED)) and _unseen(measurer) is not None


def _unseen(measurer: Measurer) -> Config | None:
    """The first configuration with a value that no world has had; None where each has had one."""
    log, plan = measurer.log, measurer.plan
    seen = set[object]()
    for config, worlds in zip(log.configs, log.trials, strict=True):
        if worlds.ran or worlds.failures:
            seen.update(config.resolved(plan.subject))
    # Asked before each block: most often there is none, and nobody needs the order.
    if all(seen.issuperset(config.resolved(plan.subject)) for config in plan.candidates()):
        return None
    left = (each for each in _untried(measurer) if {*each.resolved(plan.subject)} - seen)
    return next(left, None)


def _try_unseen(measurer: Measurer) -> None:
    """Give each value that has had no world one, in time."""
    measurer.begin("calibration")
    while (config := _unseen(measurer)) is not None and has_time_for(measurer, 1):
        calibrate_each(measurer, [_trial_of(measurer, config)], until_spent=True)


def try_next_bets(measurer: Measurer) -> bool:
    """Where nothing that a short budget was to compare can run, or keeps the limits, try what comes
    next, in time; whether something was tried."""
    log, has_tried = measurer.log, False
    while not log.reaches_all and _why_no_bet_is_left(log):
        if why_broken(log) or not has_time_for(measurer, 1):
            break
        config = next(each for each in _untried(measurer) if each not in log.configs)
        _give_place(measurer, config)
        _trial_of(measurer, config)
        calibrate(measurer)
        has_tried = True
    return has_tried


def _why_no_bet_is_left(log: StudyLog) -> str:
    """Why no rival that has had a world can win, as a clause; empty where one can, or where none
    is out but for the time that it takes."""
    rivals = [trial for trial in range(len(log.configs)) if trial != BASELINE]
    limits = [trial for trial in rivals if log.states[trial].breaks]
    fails = [trial for trial in rivals if log.states[trial].why_out is not None]
    left = {*log.runnable}.difference(limits, fails, [BASELINE])
    if left or not (limits or fails or log.states[BASELINE].never_ran()):
        return ""
    return "breaks a limit" if limits else "cannot run"


def _give_place(measurer: Measurer, config: Config) -> None:
    """Have what breaks a limit give its place to another one, and report why that is measured."""
    log = measurer.log
    if not (out := _why_no_bet_is_left(log)):
        return
    measurer.observer.on_event(f"what was tried {out}: measuring {config}")
    # It is not measured beside what takes its place; a larger budget may have time for it.
    for trial in log.candidates:
        if trial != BASELINE and (broken := log.states[trial].breaks):
            said = "; ".join(each.text for each in broken)
            tried = f"{said}: another one was tried in its place"
            measurer.eliminate({trial: tried}, silently=True)
