"""One session: explore a large grid, calibrate, race, trace; all is kept as it comes."""

from tuner.searching.both_goals import measure_both_goals
from tuner.searching.budget import Budget
from tuner.searching.calibrating import calibrate, trace
from tuner.searching.exploring import explore
from tuner.searching.giving_up import cannot_run
from tuner.searching.measurer import Measurer
from tuner.searching.progress import Observer
from tuner.searching.racing import race
from tuner.searching.runner import Runner
from tuner.study.conclusion import conclude, resume_budget_s
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import Record
from tuner.study.rows import comparable_values, paired_trials_of, rows_of
from tuner.study.storage.store import StudyStore


class Session:
    """Drives a study from where its store stands to its conclusion.

    Args:
        runner: Runs the worlds.
        store: The study; what it holds is not measured again.
        observer: Is told what happens.
        budget: The time that may be spent.
    """

    def __init__(
        self, runner: Runner, store: StudyStore, observer: Observer, budget: Budget
    ) -> None:
        self._measurer = Measurer(runner, store, observer, budget)

    @property
    def log(self) -> StudyLog:
        """What has been measured so far."""
        return self._measurer.log

    def add(self, record: Record) -> None:
        """Keep the outcome of a world that was run before the session began."""
        self._measurer.add(record)

    def run(self, *, measures: bool = True) -> None:
        """Measure what is still to be measured, and close the study; or note the time alone."""
        measurer = self._measurer
        if not measures:
            measurer.note_elapsed()
            return
        if not measurer.store.running():
            measurer.observer.on_event(f"the study is finished: {self._what_helps()}")
            return
        try:
            explore(measurer)
            calibrate(measurer)
            if not self.log.blocks("race"):
                measure_both_goals(measurer)
            race(measurer)
            trace(measurer)
            measurer.teller.alike()
        finally:
            measurer.close()
            measurer.note_elapsed()
        self._close()

    def _what_helps(self) -> str:
        """What a finished study needs to be gone on with."""
        if not self.log.alive:
            return (
                "no configuration could run; once what fails is repaired, --overwrite searches anew"
            )
        least_s = resume_budget_s(self.log, self._measurer.budget.spent_s)
        return f"nothing is left to measure; --budget {least_s}s or more continues it"

    def _close(self) -> None:
        """End every trial that is still running; the recommended one is never pruned."""
        store, log = self._measurer.store, self.log
        conclusion = conclude(log)
        if conclusion is not None and conclusion.best not in (None, BASELINE):
            self._measurer.readmit(conclusion.best)
        rows = rows_of(log, conclusion, paired_trials_of(log))
        values = comparable_values(rows, log.plan.objective)
        if conclusion is not None and conclusion.best is not None:
            store.note_answer(conclusion.best)
        for trial in store.running():
            value, numbers = values.get(trial), log.numbers(trial)
            outcome, broken = log.outcome(trial), log.broken(trial)
            store.constrain(
                trial,
                {str(limit): limit.excess(value) for limit, value in log.limited(trial)},
                broken,
            )
            if log.why_out(trial) is not None and (log.ran(trial) or cannot_run(log, trial)):
                store.fail(trial, numbers, outcome)
            elif outcome in ("completed", "infeasible") and value is not None:
                store.complete(trial, value, numbers, outcome)
            else:
                store.prune(trial, value, numbers, outcome)
