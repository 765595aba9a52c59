"""How a study begins: with a world of its baseline, and with what the budget is enough for then.

A trace of the baseline tells of other numbers of threads. Such a forecast is no evidence: it says
what is measured first, and what only if there is time.
"""

import math
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tuner.plan.config import Config
from tuner.plan.study_plan import StudyPlan
from tuner.searching.calibrating import is_tried_again, trace_contenders
from tuner.searching.fitting import Fit, fit_sentence, in_order_of_promise, nothing_fits
from tuner.searching.inspecting import Facts, Spent, changes_nothing
from tuner.searching.measurer import Measurer
from tuner.searching.runner import Runner, TimedWorld
from tuner.searching.searched_space import Notify
from tuner.searching.wall_time import LEAST_FIRST_S, first_world_s
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import CALIBRATION_BLOCK, TRACE_BLOCK, ForecastThreads, Record
from tuner.study.storage.address import earlier_studies
from tuner.study.storage.opening import NEEDED_S, Claim, create_study
from tuner.study.storage.prior import IDENTITY, identity_of, in_prior_order, prior_costs
from tuner.study.storage.store import StudyStore
from tuner.study.stored import stored_forecasts
from tuner.text import plural
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import Forecast, WhatIf
from tuner.world.environment import Environment
from tuner.world.launcher import members_of
from tuner.world.measurement import Failure, Measurement, Outcome

# For all forecasts, and as a share of the budget.
_MOST_FORECAST_S, _MOST_FORECAST_SHARE = 10.0, 0.05

BETS = "bets"  # the note of what comes next where the budget is too short for all, in this order
NAMED = "named"  # the note of whether a person named the space
_MOST_BETS = 20


def begin(
    runner: Runner, facts: Facts, forecasts: "Forecasts | None", claim: Claim, here: Environment,
    spent_s: Spent, notify: Notify,
) -> tuple[StudyStore, Sequence[Record]]:  # fmt: skip
    """Begin a new study; returns it, and the worlds of its baseline, which it lacks yet.

    Where the budget is too short for all, it has the best bets that this is enough for, maybe
    none, and can be gone on with. What did well in the studies beside is first.
    """
    plan = runner.plan
    forecasts = (forecasts or forecasts_of(plan, facts, spent_s)).of(_others(plan))
    suggested = [each.knob for each in facts.suggestions]
    ordered, known = in_order_of_promise(plan, forecasts.found, suggested), 0
    if len(ordered) > 2:
        prior = prior_costs(earlier_studies(claim.place), plan, here)
        known = sum(config in prior for config in ordered[1:])
        ordered = in_prior_order(ordered, prior)
    fit, first = _first_of_all(runner, facts, spent_s)
    claim.begin()
    first += _kept(runner, facts, claim.place.folder)
    candidates = _measured(fit, plan, ordered, notify)
    if known and len(candidates) > 1 and fit.sampling is None:
        notify(
            f"earlier studies here measured {plural(known, 'configuration')} of these: what "
            "did well is measured first, and nothing of it counts"
        )
    store = create_study(
        claim.place, plan, here, notify, candidates, fit.sampling, needed_s=fit.needed_s
    )
    store.note(IDENTITY, identity_of(plan.subject))
    store.note(NAMED, not facts.chooses_space)
    if later := ordered[len(candidates) :]:
        store.note(BETS, [each.to_json() for each in later[:_MOST_BETS]])
    if facts.kept is not None:
        note_forecasts(store, forecasts)
    return store, first


def go_on(
    runner: Runner, facts: Facts, store: StudyStore, spent_s: Spent, notify: Notify
) -> Sequence[Record]:
    """Add to a study what a larger budget is enough for; it may still be too short."""
    if not store.noted(NEEDED_S) or not store.running():
        return ()
    plan, first = runner.plan, list[Record]()
    known = [each for each in store.records() if each.trial == BASELINE]
    traces = [each.outcome for each in known if each.phase == "trace"]
    facts = replace(facts, had_trace=any(isinstance(each, Measurement) for each in traces))
    if facts.run is not None:
        fit = facts.fit(plan, facts.run, spent_s())
    else:
        kept = [each for each in known if each.phase == "calibration"]
        if not any(isinstance(each.outcome, Measurement) for each in kept):
            first = _first_worlds(runner, spent_s, kept)
        fit = _fit_by(plan, facts, [*kept, *first], spent_s())
    if fit.sampling is None:
        there = store.configs()
        ordered = in_order_of_promise(plan, stored_forecasts(store))
        candidates = _measured(fit, plan, ordered, notify)
        store.add_configs([each for each in candidates if each not in there], plan)
    else:
        store.note("sampling", fit.sampling.model_dump(mode="json"))
    store.note(NEEDED_S, fit.needed_s)
    return first


def _first_of_all(runner: Runner, facts: Facts, spent_s: Spent) -> tuple[Fit, list[Record]]:
    """What the budget is enough for, and the baseline's first worlds, if there is time for any."""
    plan = runner.plan
    if facts.run is None:
        failed = [] if facts.failed is None else _run_as_record(plan, facts.failed)
        first = failed + _first_worlds(runner, spent_s, failed)
        return _fit_by(plan, facts, first, spent_s()), first
    fit = facts.fit(plan, facts.run, spent_s())
    is_first_world = fit.is_short and not facts.saved_s
    if is_first_world and (first := _run_as_record(plan, facts.run)):
        return fit, first
    if fit.is_short and not fit.challengers:
        return fit, []
    first = _first_worlds(runner, spent_s)
    has_failed = bool(first) and isinstance(first[-1].outcome, Failure)
    if not fit.compares and not has_failed:
        # It was one of less than two; one that failed leaves time for another.
        fit = fit._replace(challengers=0)
    return fit, first


def _fit_by(plan: StudyPlan, facts: Facts, first: Sequence[Record], spent_s: float) -> Fit:
    return facts.fit(plan, first[-1].outcome, spent_s) if first else nothing_fits(plan, spent_s)


def _kept(runner: Runner, facts: Facts, folder: StudyFolder) -> list[Record]:
    """Move what was left elsewhere into the folder of the study; the record of the trace."""
    for left in runner.folder.failures.glob("*"):
        kept = folder.failures / left.name
        shutil.copytree(left, kept, dirs_exist_ok=True)
        folder.manifest.add(*kept.glob("*"))
    if facts.kept is None or facts.trace_file is None:
        return []
    baseline = runner.plan.baseline
    trace = folder.trace(baseline)
    trace.parent.mkdir(parents=True, exist_ok=True)
    folder.manifest.add(trace)
    shutil.copy2(facts.trace_file, trace)
    return [TimedWorld(BASELINE, TRACE_BLOCK, baseline).record("trace", facts.kept[0])]


def _measured(fit: Fit, plan: StudyPlan, candidates: list[Config], notify: Notify) -> list[Config]:
    """The candidates that the budget is enough for; or the best bet: others follow in time."""
    if not fit.is_short:
        return candidates
    found = candidates[: 1 + min(1, fit.challengers)]
    notify(fit_sentence(plan, found))
    return found


def _first_worlds(runner: Runner, spent_s: Spent, known: Sequence[Record] = ()) -> list[Record]:
    """Run the baseline until a world goes well, as often as a first world is tried, if setting up
    leaves the time."""
    plan, group = runner.plan, 1 if len(members_of(runner.launcher)) > 1 else None
    log = StudyLog(plan, [plan.baseline], known)
    budget_s, first = plan.measuring.budget_s, list[Record]()
    while not log.records or is_tried_again(log, BASELINE, budget_s):
        longest_s = min(first_world_s(budget_s, spent_s()), plan.subject.longest_run_s)
        if longest_s < LEAST_FIRST_S:
            break
        world = TimedWorld(BASELINE, CALIBRATION_BLOCK, plan.baseline, attempt=len(log.records))
        first.append(world.record("calibration", runner.run(world, longest_s), group))
        log.add(first[-1])
    return first


def _run_as_record(plan: StudyPlan, run: Outcome) -> list[Record]:
    """A run of a program as it is, as the first world of a baseline that changes nothing. It may be
    slower because it was traced, too: no rival is dropped for that."""
    is_known = isinstance(run, Failure) or plan.objective.read(run) is not None
    if not changes_nothing(plan) or not is_known:
        return []
    return [TimedWorld(BASELINE, CALIBRATION_BLOCK, plan.baseline).record("calibration", run)]


def forecast_space(measurer: Measurer) -> None:
    """Trace the baseline, and note what it tells of the threads and intervals of the space."""
    log, plan, budget = measurer.log, measurer.plan, measurer.budget
    is_known = measurer.store.noted("forecasts") is not None
    if is_known or BASELINE not in log.runnable or not _others(plan):
        return
    trace_contenders(measurer, [BASELINE])
    if isinstance(world := log.trials[BASELINE].trace, Measurement):
        file = measurer.store.folder.trace(plan.baseline)
        facts = Facts(
            subject=plan.subject, chooses_space=False, traced=(world, read_trace(file)),
            trace_file=file,
        )  # fmt: skip
        found = forecasts_of(plan, facts, lambda: budget.spent_s)
        log.forecasts, log.no_forecast = found
        note_forecasts(measurer.store, found)


class Forecasts(NamedTuple):
    """What a trace of the baseline tells of the other threads and switch intervals of the space."""

    found: Mapping[tuple[float, ...], ForecastThreads] = {}  # by `StudyPlan.forecast_key`
    why_not: str = ""  # why it tells of none, or which may deadlock; empty if it tells of all

    def of(self, keys: Collection[tuple[float, ...]]) -> "Forecasts":
        """Those of these alone."""
        return self._replace(found={k: v for k, v in self.found.items() if k in keys})

    def alike(self, epsilon: float) -> set[tuple[int, ...]]:
        """The threads that are forecast to change nothing by themselves."""
        told = [each for each in self.found.values() if each.ratio and not each.intervals_s]
        return {each.threads for each in told if abs(math.log(each.ratio or 1.0)) <= epsilon}


def note_forecasts(store: StudyStore, forecasts: Forecasts) -> None:
    """Keep them with the study."""
    store.note("forecasts", [each.model_dump(mode="json") for each in forecasts.found.values()])
    if forecasts.why_not:
        store.note("no_forecast", forecasts.why_not)


def forecasts_of(plan: StudyPlan, facts: Facts, spent_s: Spent) -> Forecasts:
    """What a trace of the baseline tells, of as many threads as the time allows; nothing without
    one."""
    until_s = spent_s() + min(_MOST_FORECAST_S, _MOST_FORECAST_SHARE * plan.measuring.budget_s)
    others = _others(plan)
    if facts.kept is None or not others:
        return Forecasts()
    if isinstance(model := facts.model, str):
        return Forecasts({}, model)
    found, why_not, doubt = dict[tuple[float, ...], ForecastThreads](), "", ""
    roles = plan.subject.roles
    for key in others:
        if spent_s() > until_s:
            break
        threads, intervals_s = tuple(map(int, key[: len(roles)])), key[len(roles) :]
        what_if = WhatIf(
            threads=dict(zip(roles, threads, strict=True)),
            intervals_s=dict(zip(roles, intervals_s, strict=False)),
        )
        each = model.forecast(what_if)
        why_not = why_not or each.why_not
        doubt = doubt or (each.why_not if each.may_deadlock else "")
        if not each.why_not:
            found[key] = _noted(threads, intervals_s, each)
    return Forecasts(found, doubt if found else why_not)


def _others(plan: StudyPlan) -> list[tuple[float, ...]]:
    """What a forecast is wanted for, as `StudyPlan.forecast_key` has it: first what changes threads
    or switch intervals alone; none where time is no objective."""
    if not plan.objective.is_time:
        return []
    own = plan.threads_by_role(plan.baseline)
    others = dict.fromkeys(map(plan.forecast_key, plan.candidates()))
    others.pop(plan.forecast_key(plan.baseline), None)
    return sorted(others, key=lambda key: key[: len(own)] != own and key[len(own) :] != ())


def _noted(
    threads: tuple[int, ...], intervals_s: tuple[float, ...], found: Forecast
) -> ForecastThreads:
    what: dict[str, Any] = {"threads": threads, "intervals_s": intervals_s}
    if found.deadlock:
        return ForecastThreads(**what, deadlock=found.deadlock)
    return ForecastThreads(**what, ratio=found.ratio, low=found.ratio_low, high=found.ratio_high)
