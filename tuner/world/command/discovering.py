"""What the first runs of a program show: its ranks, its own options, whether its calls vary, and
which part stands for all of a run."""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tuner.decide.steady_window import MOST_WITHIN, changes, steady_window
from tuner.errors import ProgramFailedError, UsageError
from tuner.plan.knobs import INTRA_OP_THREADS, KNOBS
from tuner.plan.program_request import WINDOW_FIELDS, ProgramRequest
from tuner.plan.program_spec import ProgramSpec, SteadyPart
from tuner.plan.workload_spec import RankSpec
from tuner.text import duration, three_digits
from tuner.world.command.counting import LEAST_CALLS, counts_of
from tuner.world.command.judging import ProgramEnd, outcome_of
from tuner.world.command.program_commands import Starters
from tuner.world.command.reports import RankReport
from tuner.world.command.warm.warm_starting import Learnt
from tuner.world.launcher import RunAsItIs
from tuner.world.measurement import Failure, Measurement

SECOND_RUN_S = 2.0
STUCK_PROBES = 5
"""After so many in a row, a second each, without a call and without an idle thread it is stuck."""
END_S = 0.5
"""About how long it takes to end a run."""
_WARM_SHARE = 1 / 3  # of the time for first runs, for a warm one that is tried before a cold one
WARM_S = 2.0
"""So long at most a warm run takes beside its calls, for which the window is chosen."""

_IN_ANY_NETWORK = re.compile(
    r"\b(ModuleNotFound|Import|Syntax|Indentation|Tab)Error: "
    r"|: error: (the following arguments are required|unrecognized arguments)"
    r"|: can't open file "
)
"""In the last line of what fails in every network: code that cannot be read, missing arguments."""
_NATIVE_FRAME = re.compile(r"\s*frame #\d+: |\s*Exception raised from ")
"""A line of PyTorch's own stack, which the evidence of the failure has."""


@dataclass(frozen=True)
class TriedRun:
    """A run of a program: how it ended, and what came of it."""

    end: ProgramEnd
    outcome: Measurement | Failure
    learnt: Learnt | None = None
    """What a warm start needs, where that was asked for."""
    was_cut: bool = False
    """Whether it was ended early, since it took too long to wait for its end."""
    only_begun: bool = False
    """Whether it was ended as soon as its calls had begun: it shows ranks and imports alone."""

    @property
    def failure(self) -> Failure | None:
        """Why it is no measurement; None if it is one."""
        return self.outcome if isinstance(self.outcome, Failure) else None

    @property
    def may_go_well_again(self) -> bool:
        """Whether it may have failed by chance, or because no other machine can be reached there:
        not by waiting, nor by an error that Python finds in what it reads."""
        kinds = ("init-failed", "crashed", "wrong-answer")
        if self.failure is None or self.failure.failure not in kinds:
            return False
        last = self.failure.detail.rstrip().rpartition("\n")[2]
        return not _IN_ANY_NETWORK.search(last)

    @property
    def may_go_well_otherwise(self) -> bool:
        """Whether it failed with all ranks known, and perhaps because of its own options."""
        kind = self.failure and self.failure.failure
        is_theirs = kind in ("deadlocked", "crashed") or (kind == "timed-out" and self._is_stuck)
        return is_theirs and self.end.report.is_ready

    @property
    def _is_stuck(self) -> bool:
        """Whether no rank has made a call for a while, in which all threads of one were busy: they
        may wait for another thread, without a call."""
        latest = [[*record.states][-STUCK_PROBES:] for record in self.end.states]
        known = [states for states in latest if len(states) == STUCK_PROBES]
        rests = bool(known) and all(len({s["steps_done"] for s in each}) == 1 for each in known)
        return rests and any(all(s["idle"] == 0 for s in each) for each in known)

    def difference(self, first: Self) -> str:
        """What a warm run did otherwise than the first, cold one, as a clause; empty if nothing."""
        kind, expected = (run.failure and run.failure.failure for run in (self, first))
        if kind != expected:
            does = "does not fail" if self.failure is None else f"fails: {self.failure.message}"
            return f"started warm, the program {does}"
        ranks, theirs = ([(r.rank, r.name) for r in run.end.report.ranks] for run in (self, first))
        return "" if ranks == theirs else "started warm, the program has other ranks"


def _in_window(spec: ProgramSpec, run: TriedRun) -> TriedRun:
    """A run that was cut, as if it had been ended after the window that it showed."""
    counts = counts_of(run.end.report)
    if not run.was_cut or spec.window_s is None or spec.steady is None or counts is None:
        return run
    counted = counts.between(spec.warm_up_s, spec.warm_up_s + spec.window_s)
    if counted.calls < LEAST_CALLS:
        return run
    end = replace(run.end, counted=counted, run_s=spec.steady.world_s)
    outcome = outcome_of(end, spec).model_copy(update={"machine": run.outcome.machine})
    return replace(run, end=end, outcome=outcome)


def _mixed_in_window(spec: ProgramSpec, runs: Sequence[TriedRun]) -> ProgramSpec:
    """A program with a chosen window, with what these runs called in it: others do that later."""
    if spec.window_s is None:
        return spec
    ends_s = spec.warm_up_s, spec.warm_up_s + spec.window_s
    found = [counts_of(run.end.report) for run in runs if run.failure is None]
    mixes = [dict(each.between(*ends_s).functions) for each in found if each is not None]
    return spec.model_copy(update={"functions": tuple(mixes)})


def check_backend(end: ProgramEnd) -> None:
    """UsageError if a rank has another agent than TensorPipe's."""
    for rank in end.report.ranks:
        if rank.backend != "TENSORPIPE":
            who = f"the program's rank {rank.name} uses the RPC backend {rank.backend}"
            raise UsageError(f"{who}: only TensorPipe has options to tune")


@dataclass
class Discovery:
    """Runs a program a few times as it is, to find out what it is and how to start it."""

    request: ProgramRequest
    starters: Starters
    """They are left as later runs are to be started."""
    run: Callable[[ProgramRequest, float, bool], TriedRun]
    """Runs it once, until a time by `time.monotonic`, and perhaps learns what it imports."""
    windowed: Callable[[ProgramSpec], ProgramSpec]
    """Chooses the window of later runs, or none."""
    notify: Callable[[str], None]
    _until_s: float = field(init=False)
    _steady: SteadyPart | None = None
    """What stands for all of a run, once a window is chosen."""

    def runs(self, longest_s: float) -> Iterator[RunAsItIs]:
        """What the program is by one run, and by two; they get so many seconds."""
        self._until_s = time.monotonic() + longest_s
        tried = self._first_warm_run()
        first = tried if tried is not None and self.starters.is_warm else self._first_run()
        if first.was_cut and self.starters.is_warm:
            yield self._last([first])
            return
        if not first.only_begun:
            spec = self._spec([first])
            yield self._seen(spec, [first], is_cold=not self.starters.is_warm)
            if spec.window_s is not None:
                self._steady = spec.steady
                update = {name: getattr(spec, name) for name in WINDOW_FIELDS}
                self.request = self.request.model_copy(update=update)
        # Beyond the budget, a second run may take as long as the first, and then it is ended.
        second_s = first.end.run_s + SECOND_RUN_S
        until_s = max(self._until_s, time.monotonic() + second_s)
        second = self._warm_run(first, tried, until_s)
        if second is None and first.failure is None:
            # The warm run may have spent the time.
            until_s = max(until_s, time.monotonic() + second_s)
            if first.only_begun:
                self._until_s = until_s
                second = self._first_run(learns=False)
            else:
                second = self._second_run(until_s)
        runs = [first, *filter(None, [second])]
        before_s = [runs.pop(0).end.run_s] if first.only_begun else []
        yield self._last(runs, before_s)

    def _last(self, runs: Sequence[TriedRun], before_s: Sequence[float] = ()) -> RunAsItIs:
        """What the program is by all runs that there will be; see `_spec`."""
        spec = self._spec(runs, before_s=before_s)
        if self.starters.is_warm or self.request.cold:
            self.notify(f"each run starts {self.starters.how}")
        if spec.was_cut:
            ended = f"a first run was ended after {duration(runs[0].end.run_s)}"
            self.notify(f"{ended}: what would come later is not known")
        return self._seen(spec, [_in_window(spec, each) for each in runs])

    def _first_warm_run(self) -> TriedRun | None:
        """Run it warm at once; None where that cannot be. If it does not go well, later runs start
        cold again: one is to show whether that is its own fault."""
        if not self.starters.use_begun():
            return None
        # What hangs warm may be quick cold.
        until_s = time.monotonic() + _WARM_SHARE * (self._until_s - time.monotonic())
        run = self.run(self.request, until_s, True)
        if run.failure is None and self.starters.warm_up(run.learnt or Learnt(), self._until_s):
            check_backend(run.end)
            return run
        self.starters.start_cold(keeps_servers=True)
        return run

    def _first_run(self, *, learns: bool = True) -> TriedRun:
        """Run it cold, in a network of its own if it can; an error if nothing can be learnt. One
        that `learns` may be ended as soon as its calls have begun."""
        run = self.run(self.request, self._until_s, learns)
        if run.failure is not None and run.may_go_well_again and self._is_time_for(run):
            run = self._again(run.failure)
        if (failure := run.failure) is not None:
            is_said = failure.detail.strip() in failure.message
            lines = [] if is_said else failure.detail.splitlines()
            detail = [each for each in lines if not _NATIVE_FRAME.match(each)]
            # One that waits for a rank that is not there gets no further.
            is_slow = not run.end.report.unmet
            more = "; a larger --budget, or --deadline, gives it more time"
            helps = more if failure.failure == "timed-out" and is_slow else ""
            why = "\n    ".join([f"{failure.message}{helps}", *detail])
            if not run.may_go_well_otherwise:
                raise ProgramFailedError(f"the program cannot be tuned: {why}")
            self.notify(f"the program fails with its own options: {why}")
        check_backend(run.end)
        return run

    def _second_run(self, until_s: float) -> TriedRun:
        """Run it once more as it went well before; an error if it does not end now."""
        run = self.run(self.request, until_s, False)
        if run.failure is not None:
            why = f"a second run of the program failed: {run.failure.message}"
            if run.failure.failure == "timed-out":
                raise ProgramFailedError(why)
            # The search goes on, and counts how often it fails.
            self.notify(why)
        return run

    def _again(self, failure: Failure) -> TriedRun:
        """Run it once more. Where it does not fail in the machine's network, find out why."""
        if not self.starters.in_own_network:
            self.notify(f"the program failed, and is run once more: {failure.message}")
            return self.run(self.request, self._until_s, True)
        failed = "the program failed in a network of its own"
        self.notify(f"{failed}, and is run once more in the machine's: {failure.message}")
        self.starters.start_cold(alone=False)
        run = self.run(self.request, self._until_s, True)
        if run.failure is None and self._is_time_for(run):
            self.starters.start_cold()
            alone = self.run(self.request, self._until_s, True)
            if alone.failure is None:
                self.notify("it failed by chance: it runs in a network of its own, too")
                return alone
        self.starters.leave_network()
        if run.failure is None:
            self.notify("the program does not run in a network of its own; it has the machine's")
        return run

    def _warm_run(self, first: TriedRun, tried: TriedRun | None, until_s: float) -> TriedRun | None:
        """Run it warm, unless the one that was tried before the first has done as that did, and see
        that it does what it did cold; None if each run starts cold."""
        learnt = first.learnt or Learnt()
        if not self.starters.warm_up(learnt, self._until_s):
            return None
        if tried is not None and tried is not first and not tried.difference(first):
            return tried
        run = self.run(self.request, until_s, False)
        if run.difference(first) and self.starters.is_warm and self._is_time_for(run):
            # It may have failed by chance.
            run = self.run(self.request, until_s, False)
        if (why := run.difference(first)) and self.starters.is_warm:
            self.starters.cool_down(why)
            return None
        return run

    def _is_time_for(self, run: TriedRun) -> bool:
        """Whether there is time for another run like this one."""
        return self._until_s - time.monotonic() > run.end.run_s

    def _seen(
        self, spec: ProgramSpec, runs: Sequence[TriedRun], *, is_cold: bool = False
    ) -> RunAsItIs:
        """By the last run that went well; where it was cold, a warm one may be shorter. Where none
        did, the first failure is told."""
        warned = tuple(dict.fromkeys(each for run in runs for each in run.end.report.warned))
        outcomes = [run.outcome for run in runs if isinstance(run.outcome, Measurement)]
        if not outcomes:
            return RunAsItIs(spec, runs[0].outcome, 0.0, warned)
        # A warm start saves at most what comes before the calls.
        least_s = outcomes[-1].wall_s if is_cold else outcomes[-1].world_s
        if spec.window_s is not None and self._steady is None:
            least_s = min(least_s, spec.warm_up_s + spec.window_s + END_S)
        return RunAsItIs(spec, outcomes[-1], least_s, warned)

    def _spec(self, runs: Sequence[TriedRun], *, before_s: Sequence[float] = ()) -> ProgramSpec:
        """The program by these runs; one took so long before that was ended once it had begun."""
        alone, starts = self.starters.in_own_network, self.starters.how
        spec = program_spec(self.request, runs, own_network=alone, starts=starts)
        if spec.run_s:
            spec = spec.model_copy(update={"run_s": (*before_s, *spec.run_s)})
        if self.request.window_s is not None and self._steady is None:
            return self.windowed(spec)
        if self._steady is None:
            longest_start_s = math.inf if self.request.cold else WARM_S
            spec = self.windowed(spec.model_copy(update=steady_part(runs, longest_start_s)))
            return _mixed_in_window(spec, runs)
        steady = self._steady
        if runs[-1].failure is None:  # it had the window
            steady = steady.model_copy(update={"world_s": spec.run_s[-1]})
        return spec.model_copy(update={"steady": steady, "was_cut": runs[0].was_cut})


def program_spec(
    request: ProgramRequest, runs: Sequence[TriedRun], *, own_network: bool, starts: str
) -> ProgramSpec:
    """The program as these runs showed it, in their network; later ones start as `starts` says. Of
    those that failed, its calls are not known, nor whether it shuts down, which is assumed."""
    report = runs[0].end.report
    ends = [run.end for run in runs if run.failure is None]
    counted = [end for end in ends if end.active_s is not None]
    return ProgramSpec(
        **request.model_dump(),
        ranks=tuple(RankSpec(name=rank.name, role=rank.role) for rank in report.latest),
        own=_own_options(report.latest),
        calls=tuple(end.calls for end in counted),
        functions=tuple(dict(end.functions) for end in counted),
        active_s=tuple(end.active_s for end in counted),
        run_s=tuple(end.run_s for end in ends),
        shuts_down=all(end.report.rpc_active_s is not None for end in ends),
        own_network=own_network,
        has_world_size=report.has_world_size,
        starts=starts,
        cuda_devices=max(rank.cuda_devices for rank in report.latest),
        has_gil=all(rank.has_gil for rank in report.latest),
        sets_intra_op_threads=_sets_threads(report.latest),
    )


def steady_part(runs: Sequence[TriedRun], longest_start_s: float) -> dict[str, Any]:
    """The part that stands for all of each of these runs, by the last of them, or why none does:
    fields of a `ProgramSpec`. Later runs take so long at most beside their calls."""
    ends = [run.end for run in runs if run.failure is None]
    if not ends or ends[-1].active_s is None:
        return {}
    counted = [counts.calls for end in ends if (counts := counts_of(end.report)) is not None]
    if not counted:
        return {}
    beside_s = min(ends[-1].run_s - ends[-1].active_s, longest_start_s)
    was_cut = runs[-1].was_cut
    most_within = math.inf if was_cut else MOST_WITHIN  # where nobody can wait for the whole
    found = steady_window(counted[-1], beside_s + END_S, most_within)
    if found is None:
        return {"why_whole": "no part of a run is long and steady enough", "was_cut": was_cut}
    if not was_cut and (rates := changes(counted, found)) is not None:
        inside, later = map(three_digits, rates)
        when = f"from {three_digits(found.start_s)} to {three_digits(found.end_s)} s"
        return {"why_whole": f"{inside} calls a second {when}, and {later} later"}
    part = SteadyPart(
        warm_up_s=found.start_s,
        window_s=found.end_s - found.start_s,
        world_s=beside_s + found.end_s + END_S,
    )
    return {"steady": part, "was_cut": was_cut}


def _own_options(ranks: Sequence[RankReport]) -> dict[str, dict[str, Any]]:
    """By role: those of its first rank."""
    found: dict[str, dict[str, Any]] = {}
    for rank in ranks:
        options = {**rank.options, INTRA_OP_THREADS.name: _threads_of(rank)}
        found.setdefault(rank.role, {k: v for k, v in options.items() if _is_known(k, v)})
    return found


def _threads_of(rank: RankReport) -> Any:
    """Its intra-op threads: those that the program set last."""
    return rank.intra_op_threads or rank.options.get(INTRA_OP_THREADS.name)


def _sets_threads(ranks: Sequence[RankReport]) -> bool:
    """Whether any rank sets its intra-op threads once RPC has started."""
    return any(_threads_of(rank) != rank.options.get(INTRA_OP_THREADS.name) for rank in ranks)


def _is_known(knob: str, value: Any) -> bool:
    """Whether a knob can have the value: torch takes more, such as an rpc_timeout of 0."""
    with suppress(ValueError):
        KNOBS[knob].read(value)
        return True
    return False
