"""Where a study keeps its files: the one place that knows their names."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import UsageError
from tuner.plan.config import Config


@dataclass(frozen=True)
class StudyFolder:
    """The paths of one study's files; nothing is created by naming them."""

    root: Path

    @property
    def database(self) -> Path:
        """The Optuna study, unless a storage URL puts it elsewhere."""
        return self.root / "study.db"

    @property
    def trials_csv(self) -> Path:
        """One row per settings."""
        return self.root / "trials.csv"

    @property
    def recommended(self) -> Path:
        """The answer, for `init_rpc`."""
        return self.root / "recommended.json"

    @property
    def report(self) -> Path:
        """The page that tells everything, for a browser."""
        return self.root / "report.html"

    @property
    def figures(self) -> Path:
        """The report's figures, each as SVG and as PNG."""
        return self.root / "figures"

    @property
    def artifacts(self) -> Path:
        """Optuna's artifact store of the study: what a dashboard shows with it."""
        return self.root / "artifacts"

    @property
    def failures(self) -> Path:
        """One folder per failed world."""
        return self.root / "failures"

    def failure(self, config: Config, block: int) -> Path:
        """The folder of one failed world: what each rank printed, and its stacks."""
        return self.failures / f"{config.slug}-block{block:04d}"

    @property
    def traces(self) -> Path:
        """One trace per settings; ui.perfetto.dev opens them."""
        return self.root / "traces"

    def trace(self, config: Config) -> Path:
        """The trace of these settings."""
        return self.traces / f"{config.slug}.json"

    def trace_failure(self, config: Config) -> Path:
        """The folder of a traced world that failed."""
        return self.failures / f"{config.slug}-trace"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second search out of the folder: both would spoil each other's timings."""
        path = self.root / "search.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"another search is running in {self.root}") from None
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    def check_writable(self) -> None:
        """UsageError unless files can be made here. Leaves nothing behind."""
        nearest_folder = self.root
        try:
            while not nearest_folder.exists() and nearest_folder != nearest_folder.parent:
                nearest_folder = nearest_folder.parent
            with tempfile.TemporaryFile(dir=nearest_folder):
                pass
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise UsageError(f"cannot write the study folder {self.root}: {reason}") from None
