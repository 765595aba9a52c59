"""What the observer of a search is told of its worlds: failures, the last look, how far it is."""

from collections.abc import Callable, Hashable

from tuner.searching.budget import Budget
from tuner.searching.progress import Compared, GroupState, Observer, Snapshot
from tuner.study.conclusion import comparison_of
from tuner.study.evidence import leader, strongest_rival
from tuner.study.folder import StudyFolder
from tuner.study.log import BASELINE, BLOCK_PHASES, StudyLog
from tuner.study.records import Phase, Record
from tuner.text import first_of, plural
from tuner.world.likeness import likeness
from tuner.world.measurement import Failure

# An event names no more than these.
_MOST_NAMED = 3


class Teller:
    """Tells the observer of a search.

    Args:
        observer: Is told.
        log: What was measured.
        folder: Of the study; paths in failures are shown as seen from where the person stands.
        budget: The time that may be spent.
        groups: Where each of several groups is.
    """

    def __init__(
        self,
        observer: Observer,
        log: StudyLog,
        folder: StudyFolder,
        budget: Budget,
        groups: Callable[[], tuple[GroupState, ...]],
    ) -> None:
        self._observer = observer
        self._log = log
        self._folder = folder
        self._budget = budget
        self._groups = groups
        self._leader = leader(log)
        self._compared: Compared | None = None
        self._alike: dict[Hashable, tuple[str, list[str]]] = {}
        """By what failures have in common: of which configuration was told, and the others."""

    def failure(self, record: Record, failure: Failure) -> None:
        """Tell of the first of those failures that are alike; the others are counted."""
        label = str(self._log.configs[record.trial])
        kind = (record.phase == "trace", likeness(failure.failure, failure.message))
        if kind in self._alike:
            self._alike[kind][1].append(label)
            return
        self._alike[kind] = (label, [])
        told = self._folder.failure_text(failure.failure, failure.message)
        self._observer.on_event(f"{label}{': no trace' * (record.phase == 'trace')}: {told}")

    def alike(self) -> None:
        """Tell how many failed as others did, of which the observer has not been told."""
        for first, others in self._alike.values():
            if others:
                some = first_of(others, _MOST_NAMED)
                self._observer.on_event(
                    f"{plural(len(others), 'more world')} failed as that of {first} did: {some}"
                )
                others.clear()

    def comparison(self, more_s: float | None, left_s: float, phase: Phase) -> None:
        """Tell what a look has shown.

        Args:
            more_s: After how many more seconds the answer is clear; None: nobody can tell, or the
                race is over.
            left_s: The seconds that are left for it.
            phase: What is measured now.
        """
        rival, comparison = strongest_rival(self._log), comparison_of(self._log)
        if rival is not None and comparison.speedup and BASELINE not in self._log.failures:
            self._compared = Compared(
                rival=str(self._log.configs[rival]),
                speedup=comparison.speedup,
                more_s=more_s,
                is_decided=comparison.kind != "undecided",
                left_s=left_s,
            )
            self.progress(phase)

    def note_leader(self) -> None:
        """Have the next snapshots name who leads now."""
        self._leader = leader(self._log)

    def progress(self, phase: Phase) -> None:
        """Tell how far the search is.

        Args:
            phase: What is measured now.
        """
        log, plan = self._log, self._log.plan
        ahead = self._leader if self._leader in log.alive else None
        exploring = log.sampling is not None and log.sampling.went_on is None
        self._observer.on_snapshot(
            Snapshot(
                phase="exploration" if exploring else phase,
                block=sum(map(log.blocks, BLOCK_PHASES)),
                worlds=len(log.records),
                calibrated=log.calibrated,
                traced=log.rows.traced,
                configs=len(log.configs),
                survivors=len(log.runnable if phase == "trace" else log.racing),
                leader=None if ahead is None else str(log.configs[ahead]),
                leader_value=None if ahead is None else log.value(ahead),
                unit=plan.objective.unit,
                remaining_s=max(0.0, self._budget.remaining_s),
                until_clear=plan.measuring.until_clear,
                looks=len(log.looks),
                compared=self._compared if phase == "race" else None,
                groups=self._groups(),
            )
        )
