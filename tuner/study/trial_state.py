"""What a trial is, and why: its state follows from its worlds and from what the search decided."""

from dataclasses import dataclass

from tuner.decide.lost_calls import LostCalls
from tuner.plan.objectives import BrokenLimit
from tuner.world.measurement import Failure

LEAST_TO_BAR = 3  # one unlucky world in a row of few bars no configuration from the search
FAILS_MORE = "fails-more"  # the outcome of what does less work than the baseline


@dataclass(frozen=True, kw_only=True)
class TrialState:
    """What one trial is. It is computed when a record of it arrives; another state takes its place.

    A trial is alive while it can be an answer, runnable if a block can measure it as well, and a
    candidate if it can still win the race.
    """

    is_baseline: bool = False
    has_run: bool = False  # whether a world of it, but a trace, went well
    is_calibrated: bool = False  # whether its first world did
    samples: int = 0  # how many worlds of it count, up to those that can bar it
    failure: Failure | None = None  # its first one, but of a trace
    failed_in_block: bool = False  # whether a world of a block failed
    deadlock: Failure | None = None  # the first that was proved, also where it has run
    wrong_answer: Failure | None = None  # that bars it: not where the baseline has given one, too
    breaks: tuple[BrokenLimit, ...] = ()  # by its first world, where no other one counts
    lost: LostCalls | None = None  # that it may do less work than the baseline
    unreliable: bool = False  # whether it is shown to fail more often, or to deadlock at times
    eliminated: str | None = None  # why it is out of the race; the baseline never is

    @property
    def broken(self) -> tuple[BrokenLimit, ...]:
        """The limits that it does not keep by the worlds that count."""
        return self.breaks if self.samples else ()

    @property
    def barred(self) -> tuple[BrokenLimit, ...]:
        """Those that it surely does not keep."""
        return self.breaks if self.samples >= LEAST_TO_BAR else ()

    def never_ran(self) -> bool:
        """Whether all of its worlds failed, one at least."""
        return self.failure is not None and not self.has_run

    def has_deadlocked(self) -> bool:
        """Whether a deadlock of it was proved."""
        return self.deadlock is not None

    def is_unreliable(self) -> bool:
        """Whether it is shown to fail more often than the others, or to deadlock though it ran."""
        return self.unreliable

    def is_eliminated(self) -> bool:
        """Whether it is out of the race, whatever else it is."""
        return self.eliminated is not None

    def does_less(self) -> bool:
        """Whether it is shown to do less work than the baseline."""
        return self.lost is not None and self.lost.is_shown

    def fails(self) -> bool:
        """Whether its worlds bar it: it fails too often, or does not do the work."""
        return self.unreliable or self.wrong_answer is not None or self.does_less()

    def is_alive(self) -> bool:
        """Whether it can run, not too rarely, does the work and keeps the limits, eliminated or
        not; the baseline if it has not failed alone."""
        is_out = self.fails() or self.barred
        return not self.never_ran() and (self.is_baseline or not is_out)

    def is_runnable(self) -> bool:
        """Whether it is alive, and has run: a block can measure it."""
        return self.is_calibrated and self.is_alive()

    def is_candidate(self) -> bool:
        """Whether it can still win the race."""
        is_out = self.eliminated is not None or self.barred or self.unreliable
        return not is_out and self.is_alive()

    def is_racing(self) -> bool:
        """Whether the next block measures it: a candidate, or the baseline with them."""
        return self.is_candidate() or (self.is_baseline and not self.never_ran())

    @property
    def why_out(self) -> Failure | None:
        """Why it never ran, in no block at least, or is out; None for one that counts."""
        never_ran = self.never_ran() or (self.failed_in_block and not self.samples)
        is_out = never_ran or (self.unreliable and not self.is_baseline)
        return self.wrong_answer or ((self.deadlock or self.failure) if is_out else None)

    @property
    def outcome(self) -> str:
        """`completed`, `eliminated`, `not-measured`, `infeasible`, `fails-more`, or the kind of
        failure."""
        if self.why_out is not None:
            return self.why_out.failure
        if self.does_less():
            return FAILS_MORE
        if self.broken:
            return "infeasible"
        is_seen = self.samples or self.is_calibrated
        if is_seen and self.eliminated is not None and not self.is_baseline:
            return "eliminated"
        return "completed" if self.samples else "not-measured"
