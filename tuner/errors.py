"""The errors that this package raises on purpose; anything else is a defect."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tuner.text import first_of, printable, shortened

# What a message has at most.
MOST_PROBLEMS = 15
_MOST_CHARACTERS = 20_000
_REQUIREMENT = re.compile(r"([\w.-]+)(?:.*extra == ['\"]([\w-]+)['\"])?")
_NOT_FOR_USERS = ("dev", "docs")


class TunerError(Exception):
    """Root of the errors whose message is meant for the person at the keyboard."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(printable(message), _MOST_CHARACTERS))


class UsageError(TunerError):
    """The request cannot be carried out as given; lists every problem found, each with its cure."""

    exit_code = 2

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        self.problems = tuple(problems)
        told = first_of([*map(shortened, self.problems)], MOST_PROBLEMS, separator="\n  - ")
        # A message may be that of another error, with problems of its own.
        subject = "\n".join(map(shortened, message.split("\n")))
        super().__init__(f"{subject}\n  - {told}" if told else subject)

    @classmethod
    def about(cls, subject: str, problems: Sequence[str]) -> "UsageError":
        """One problem reads as a sentence; several as a list under their subject."""
        if len(problems) == 1:
            return cls(f"{subject}: {problems[0]}")
        return cls(f"{subject}: {len(problems)} problems", problems)

    @classmethod
    def of_request(cls, problems: Sequence[str]) -> "UsageError":
        """Of what was asked for: one problem stands alone, several are a list."""
        if len(problems) == 1:
            return cls(problems[0])
        return cls(f"the request has {len(problems)} problems", problems)


class DamagedStorageError(UsageError):
    """The storage answers, but not what was written into it."""


class ProgramFailedError(UsageError):
    """A program failed as it is, so that there is nothing to tune."""


class NothingRanError(TunerError):
    """No configuration of the search space could run the workload."""

    exit_code = 3


class InterruptedSearchError(TunerError):
    """The search was stopped from outside; what was measured is kept."""

    exit_code = 130


class StorageLostError(InterruptedSearchError):
    """The storage, or the study's folder, went away in a search's middle and did not come back."""


class StudyTakenError(InterruptedSearchError):
    """Another search took the study while its storage was away."""


class LauncherError(TunerError):
    """Worlds cannot be launched here, with any configuration."""


class MissingPackageError(TunerError, ImportError):
    """A package is not installed here that ranks do without, and this does not."""


class TraceError(TunerError):
    """A trace cannot be taken, or lacks what it should hold."""


@contextmanager
def telling_what_is_missing() -> Iterator[None]:
    """Within the block, a dependency that cannot be imported is a MissingPackageError."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extras = _extras_of(package)
        if extras is None:
            raise
        what = f"rpc-tuner[{extras[0]}]" if extras else "rpc-tuner"
        raise MissingPackageError(
            f"{package} is not installed here: install it with python -m pip install '{what}', "
            "or do this where it is. A rank of a program needs torch alone"
        ) from error


def _extras_of(package: str) -> list[str] | None:
    """The extras that bring it, none where every installation has it; None if it is not ours."""
    # Late: its import takes long, and a rank needs it only here.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        requirements = requires("rpc-tuner") or []
    except PackageNotFoundError:
        return None
    found = filter(None, map(_REQUIREMENT.match, requirements))
    extras = [each[2] for each in found if re.sub(r"[-.]", "_", each[1].lower()) == package]
    if None in extras:
        return []
    return [extra for extra in extras if extra not in _NOT_FOR_USERS] or None
