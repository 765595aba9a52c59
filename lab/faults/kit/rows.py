"""What a row of the table of faults is, and which rows there are."""

import importlib
import pkgutil
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import lab.faults


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a fault led to."""

    told: str
    """What happened, as a clause with its numbers."""
    survived: bool
    lost: int = 0
    """Observations that were measured and are not there any more, or are there twice."""
    left: int = 0
    """Processes and temporary files that are there 5 s later."""

    @property
    def is_good(self) -> bool:
        return self.survived and not self.lost and not self.left


@dataclass(frozen=True)
class Row:
    """One fault, and how to cause it in an empty folder; a quick one by `make test-all`, too."""

    fault: str
    expected: str
    inject: Callable[[Path], Outcome]
    is_quick: bool = False
    starts_worlds: bool = True

    def outcome(self) -> Outcome:
        """What it leads to now; an exception of `inject` is an outcome, too."""
        with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
            try:
                return self.inject(Path(folder))
            except Exception as error:
                traceback.print_exc()
                return Outcome(told=f"{type(error).__name__}: {error}", survived=False)


def topics() -> Mapping[str, Sequence[Row]]:
    """The rows of each module of `lab.faults`, by its name: what it calls ROWS."""
    return {
        module.name: importlib.import_module(f"lab.faults.{module.name}").ROWS
        for module in pkgutil.iter_modules(lab.faults.__path__)
        if not module.ispkg and not module.name.startswith("_")
    }
