"""How a study begins: with a world of its baseline, and with what the budget is enough for then.

A trace of the baseline tells of other numbers of threads. Such a forecast is no evidence: it says
what is measured first, and what only if there is time.
"""

import math
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.plan.program_spec import ProgramSpec, Subject
from tuner.plan.study_plan import StudyPlan
from tuner.searching.budget import LEAST_FIRST_S, first_world_s
from tuner.searching.calibrating import TRACED_FACTOR, is_tried_again, trace_contenders
from tuner.searching.fitting import (
    Fit,
    fit_of,
    fit_sentence,
    in_order_of_promise,
    nothing_fits,
    pair_worlds,
)
from tuner.searching.measurer import Measurer
from tuner.searching.runner import Runner, TimedWorld, numbers_in, patterns_of
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
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf
from tuner.trace.model.trace import Trace
from tuner.world.environment import Environment
from tuner.world.launcher import Launcher, members_of
from tuner.world.measurement import Failure, Measurement, Outcome

_MOST_TRACED_FIRST = 0.15  # of the budget, for a trace before anything is compared
# For all forecasts, and as a share of the budget.
_MOST_FORECAST_S, _MOST_FORECAST_SHARE = 10.0, 0.05

BETS = "bets"  # the note of what comes next, where the best bets cannot win, in this order
_MOST_BETS = 20

Notify = Callable[[str], None]


class FirstRuns:
    """What is known before a study measures anything: of a program the latest run as it is, and of
    its baseline a trace.

    A launcher calls this after each run of a program that went well, to ask for another one, and
    after the one that did not, where it goes on.
    `earlier_s` and `since_start` are seconds of earlier sessions and of this; `folder` gets the
    files of worlds until there is a study.
    """

    def __init__(
        self,
        draft: PlanDraft,
        launcher: Launcher,
        earlier_s: float,
        since_start: Callable[[], float],
        folder: StudyFolder,
    ) -> None:
        self._draft, self.launcher, self.folder = draft, launcher, folder
        self._earlier_s, self.since_start = earlier_s, since_start
        self.last: Measurement | None = None  # the latest run of a program as it is
        self.failed: Failure | None = None  # how a program failed as it is, where none went well
        self.as_it_is = folder.traces / "as-it-is.json"  # for a trace of a later run as it is
        self.traced: tuple[Measurement, Trace] | None = None  # the traced run of its baseline
        self.trace_file = self.as_it_is
        self.had_trace = False  # whether an earlier session has traced its baseline
        self._forecasts: Forecasts | None = None
        self.suggested: Sequence[str] = ()  # the knobs that the diagnosis of the trace names

    @property
    def spent_s(self) -> float:
        """What setting up has taken so far, and earlier sessions."""
        return self._earlier_s + self.since_start()

    def __call__(self, subject: Subject, run: Outcome, least_s: float) -> bool:
        """Whether there is time for another run as it is, where each takes so long at least."""
        if isinstance(run, Failure):
            self.failed = self.failed or run
            return True
        self.last, plan = run, self._draft.finish(subject)
        needed_s = self.spent_s + (1 + pair_worlds(plan)) * least_s
        compares = self.fit(plan, run, least_s).compares
        return compares and needed_s <= plan.measuring.budget_s

    def fit(self, plan: StudyPlan, world: Outcome, least_s: float | None = None) -> Fit:
        """What the rest of the budget is enough for, by a world of the baseline; one takes
        `least_s` if that is given."""
        spent_s, shorter_s = self.spent_s, self.saved_s(plan)
        world = world.model_copy(update={"world_s": world.world_s - shorter_s})
        world_s = world.world_s if least_s is None else least_s
        if shorter_s:
            spent_s += world_s  # the baseline's first world, which is one of these
        return fit_of(
            plan, world, spent_s, world_s,
            is_traced=self.had_trace or self.traced is not None,
            was_traced=self._is_by_trace(plan),
        )  # fmt: skip

    def saved_s(self, plan: StudyPlan) -> float:
        """How many seconds later runs are shorter than the latest one."""
        subject = plan.subject
        if self.last is None or not isinstance(subject, ProgramSpec) or subject.steady is None:
            return 0.0
        return self.last.world_s - subject.steady.world_s if subject.window_is_chosen else 0.0

    def _is_by_trace(self, plan: StudyPlan) -> bool:
        """Whether the latest run as it is took longer because it was traced."""
        subject = plan.subject
        is_whole = isinstance(subject, ProgramSpec) and subject.window_s is None
        return is_whole and self.last is not None and self.as_it_is.exists()

    def trace(self, plan: StudyPlan) -> None:
        """Trace a program's baseline before there is a study, which then has it, unless a run as it
        is was traced, or that takes too much of the budget. Where this is enough for no comparison,
        all that is left may go to the trace."""
        subject, budget_s = plan.subject, plan.measuring.budget_s
        if not isinstance(subject, ProgramSpec) or not subject.run_s:
            return
        if self.last is not None and _changes_nothing(plan) and self.as_it_is.exists():
            with suppress(UsageError):
                trace = read_trace(self.as_it_is)
                # It took no time of its own.
                known = {"trace": numbers_in(trace, subject.ranks), "world_s": 0.0}
                self.traced = self.last.model_copy(update=known), trace
                return
        most_s = budget_s - self.spent_s
        if self.last is None or self.fit(plan, self.last).compares:
            most_s = min(most_s, _MOST_TRACED_FIRST * budget_s)
        if TRACED_FACTOR * subject.usual_s > most_s:
            return
        runner = Runner(plan, self.launcher, self.folder)
        world = runner.trace(plan.baseline, None, min(most_s, subject.longest_run_s))
        if isinstance(world, Measurement):
            self.trace_file = self.folder.trace(plan.baseline)
            self.traced = world, read_trace(self.trace_file)

    def forecasts(self, plan: StudyPlan) -> "Forecasts":
        """What the trace tells of other threads and switch intervals; nothing without a trace."""
        if self.traced is None:
            return Forecasts()
        if self._forecasts is None:
            self._forecasts = forecasts_of(plan, self.traced[1], self.since_start)
        return self._forecasts.of(_others(plan))

    def allows(self, plan: StudyPlan, wider: StudyPlan, world: Outcome) -> bool:
        """Whether to go on with a plan of more: the budget is enough for all of it, or too short
        for the plan as it is, so that only the best bets are measured."""
        if self.fit(wider, self.last or world).needed_s is None:
            return True
        # Of a workload no world has been timed yet.
        return self.last is not None and self.fit(plan, self.last).needed_s is not None


def begin(
    runs: FirstRuns, plan: StudyPlan, claim: Claim, here: Environment, notify: Notify
) -> tuple[StudyStore, Sequence[Record]]:
    """Begin a new study; returns it, and the worlds of its baseline, which it lacks yet.

    Where the budget is too short for all, it has the best bets that this is enough for, maybe
    none, and can be gone on with. What did well in the studies beside is first.
    """
    forecasts = runs.forecasts(plan)
    candidates, known = in_order_of_promise(plan, forecasts.found, runs.suggested), 0
    if len(candidates) > 2:
        prior = prior_costs(earlier_studies(claim.place), plan, here)
        known = sum(config in prior for config in candidates[1:])
        candidates = in_prior_order(candidates, prior)
    fit, first = _first_of_all(runs, plan)
    claim.begin()
    first += _kept(runs, plan, claim.place.folder)
    bets, candidates = candidates, _measured(fit, plan, candidates, notify)
    if known and len(candidates) > 1 and fit.sampling is None:
        notify(
            f"earlier studies here measured {plural(known, 'configuration')} of these: what "
            "did well is measured first, and nothing of it counts"
        )
    store = create_study(
        claim.place, plan, here, notify, candidates, fit.sampling, needed_s=fit.needed_s
    )
    store.note(IDENTITY, identity_of(plan.subject))
    if len(bets) > len(candidates):
        store.note(BETS, [each.to_json() for each in bets[len(candidates) :][:_MOST_BETS]])
    if runs.traced is not None:
        note_forecasts(store, forecasts)
    return store, first


def go_on(runs: FirstRuns, plan: StudyPlan, store: StudyStore, notify: Notify) -> Sequence[Record]:
    """Add to a study what a larger budget is enough for; it may still be too short."""
    if not store.noted(NEEDED_S) or not store.running():
        return ()
    first: list[Record] = []
    known = [each for each in store.records() if each.trial == BASELINE]
    traces = [each.outcome for each in known if each.phase == "trace"]
    runs.had_trace = any(isinstance(each, Measurement) for each in traces)
    if runs.last is not None:
        fit = runs.fit(plan, runs.last)
    else:
        kept = [each for each in known if each.phase == "calibration"]
        if not any(isinstance(each.outcome, Measurement) for each in kept):
            first = _first_worlds(runs, plan, store.folder, kept)
        fit = _fit_by(runs, plan, [*kept, *first])
    if fit.sampling is None:
        there = store.configs()
        ordered = in_order_of_promise(plan, stored_forecasts(store))
        candidates = _measured(fit, plan, ordered, notify)
        store.add_configs([each for each in candidates if each not in there], plan)
    else:
        store.note("sampling", fit.sampling.model_dump(mode="json"))
    store.note(NEEDED_S, fit.needed_s)
    return first


def _first_of_all(runs: FirstRuns, plan: StudyPlan) -> tuple[Fit, list[Record]]:
    """What the budget is enough for, and the baseline's first worlds, if there is time for any."""
    if runs.last is None:
        failed = [] if runs.failed is None else _run_as_record(plan, runs.failed)
        first = failed + _first_worlds(runs, plan, runs.folder, failed)
        return _fit_by(runs, plan, first), first
    fit = runs.fit(plan, runs.last)
    is_first_world = fit.needed_s is not None and not runs.saved_s(plan)
    if is_first_world and (first := _run_as_record(plan, runs.last)):
        return fit, first
    if fit.challengers == 0:
        return fit, []
    first = _first_worlds(runs, plan, runs.folder)
    has_failed = bool(first) and isinstance(first[-1].outcome, Failure)
    if not fit.compares and not has_failed:
        # It was one of less than two; one that failed leaves time for another.
        fit = fit._replace(challengers=0)
    return fit, first


def _fit_by(runs: FirstRuns, plan: StudyPlan, first: Sequence[Record]) -> Fit:
    return runs.fit(plan, first[-1].outcome) if first else nothing_fits(plan, runs.spent_s)


def _kept(runs: FirstRuns, plan: StudyPlan, folder: StudyFolder) -> list[Record]:
    """Move what was left elsewhere into the folder of the study; the record of the trace."""
    for left in runs.folder.failures.glob("*"):
        kept = folder.failures / left.name
        shutil.copytree(left, kept, dirs_exist_ok=True)
        folder.manifest.add(*kept.glob("*"))
    if runs.traced is None:
        return []
    trace = folder.trace(plan.baseline)
    trace.parent.mkdir(parents=True, exist_ok=True)
    folder.manifest.add(trace)
    shutil.copy2(runs.trace_file, trace)
    return [TimedWorld(BASELINE, TRACE_BLOCK, plan.baseline).record("trace", runs.traced[0])]


def _measured(fit: Fit, plan: StudyPlan, candidates: list[Config], notify: Notify) -> list[Config]:
    """The candidates that the budget is enough for; the best bets are first."""
    if fit.challengers is None:
        return candidates
    found = candidates[: 1 + fit.challengers]
    notify(fit_sentence(fit, plan, found))
    return found


def _first_worlds(
    runs: FirstRuns, plan: StudyPlan, folder: StudyFolder, known: Sequence[Record] = ()
) -> list[Record]:
    """Run the baseline until a world goes well, as often as a first world is tried, if setting up
    leaves the time."""
    group = 1 if len(members_of(runs.launcher)) > 1 else None
    runner, log = Runner(plan, runs.launcher, folder), StudyLog(plan, [plan.baseline], known)
    budget_s, first = plan.measuring.budget_s, list[Record]()
    while not log.records or is_tried_again(log, BASELINE, budget_s):
        longest_s = first_world_s(budget_s, runs.spent_s)
        if isinstance(plan.subject, ProgramSpec):
            longest_s = min(longest_s, plan.subject.longest_run_s)
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
    if not _changes_nothing(plan) or not is_known:
        return []
    return [TimedWorld(BASELINE, CALIBRATION_BLOCK, plan.baseline).record("calibration", run)]


def _changes_nothing(plan: StudyPlan) -> bool:
    """Whether the baseline is the program as it is."""
    return plan.baseline.resolved(plan.subject) == Config.of({}).resolved(plan.subject)


def forecast_space(measurer: Measurer) -> None:
    """Trace the baseline, and note what it tells of the threads and intervals of the space."""
    log, plan, budget = measurer.log, measurer.plan, measurer.budget
    is_known = measurer.store.noted("forecasts") is not None
    if is_known or BASELINE not in log.runnable or not _others(plan):
        return
    trace_contenders(measurer, [BASELINE])
    if isinstance(log.trials[BASELINE].trace, Measurement):
        traced = read_trace(measurer.store.folder.trace(plan.baseline))
        found = forecasts_of(plan, traced, lambda: budget.spent_s)
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


def forecasts_of(plan: StudyPlan, trace: Trace, spent_s: Callable[[], float]) -> Forecasts:
    """What a trace of the baseline tells, of as many threads as the time allows."""
    until_s = spent_s() + min(_MOST_FORECAST_S, _MOST_FORECAST_SHARE * plan.measuring.budget_s)
    if not (others := _others(plan)):
        return Forecasts()
    model = Model.of(trace, patterns_of(plan.subject.ranks))
    if isinstance(model, str):
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
