"""The errors that this package raises on purpose; anything else is a defect."""

from collections.abc import Sequence


class TunerError(Exception):
    """Root of the errors whose message is meant for the person at the keyboard."""

    exit_code = 1


class UsageError(TunerError):
    """The request cannot be carried out as given; lists every problem found, each with its cure."""

    exit_code = 2

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join([message, *(f"  - {problem}" for problem in self.problems)]))

    @classmethod
    def about(cls, subject: str, problems: Sequence[str]) -> "UsageError":
        """One problem reads as a sentence; several as a list under their subject."""
        if len(problems) == 1:
            return cls(f"{subject}: {problems[0]}")
        return cls(f"{subject}: {len(problems)} problems", problems)


class ProgramFailedError(UsageError):
    """A program failed as it is, so that there is nothing to tune."""


class NothingRanError(TunerError):
    """No configuration of the search space could run the workload."""

    exit_code = 3


class InterruptedSearchError(TunerError):
    """The search was stopped from outside; what was measured is kept."""

    exit_code = 130


class LauncherError(TunerError):
    """Worlds cannot be launched here, with any configuration."""


class TraceError(TunerError):
    """A trace cannot be taken, or lacks what it should hold."""
