"""Files that stand beside a study and its trials: Optuna's artifacts."""

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import optuna
from optuna.artifacts import FileSystemArtifactStore, upload_artifact
from optuna.artifacts.exceptions import ArtifactNotFound
from optuna.storages import BaseStorage
from optuna.trial import Trial

from tuner.files import written_atomically
from tuner.plan.config import Config
from tuner.study.folder import StudyFolder
from tuner.study.records import Record
from tuner.world.measurement import Measurement

_KEY = "artifacts:"


class WholeFiles(FileSystemArtifactStore):
    """Optuna's store in a study's folder, in which every file is whole, and in the manifest."""

    def __init__(self, folder: StudyFolder) -> None:
        super().__init__(folder.artifacts)
        self._folder = folder

    def write(self, artifact_id: str, content_body: BinaryIO) -> None:
        """Keep the content under this id; it replaces an earlier one."""
        path = self._folder.artifacts / artifact_id
        self._folder.manifest.add(path)
        with written_atomically(path) as partial:
            super().write(partial.name, content_body)

    def holds(self, artifact_id: str) -> bool:
        """Whether there is a file of this id."""
        try:
            self.open_reader(artifact_id).close()
        except ArtifactNotFound:
            return False
        return True


class SeveralFolders:
    """The artifacts of several studies, to be read only."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._stores = [FileSystemArtifactStore(folder) for folder in folders]

    def open_reader(self, artifact_id: str) -> BinaryIO:
        """The artifact, from whichever folder holds it."""
        for store in self._stores:
            try:
                return store.open_reader(artifact_id)
            except ArtifactNotFound:
                continue
        raise ArtifactNotFound(f"there is no artifact {artifact_id}")

    def write(self, artifact_id: str, content_body: BinaryIO) -> None:
        """Refused: a copy of a study has no artifacts of its own."""
        raise PermissionError("the artifacts of several studies can only be read")

    def remove(self, artifact_id: str) -> None:
        """Refused, like `write`."""
        raise PermissionError("the artifacts of several studies can only be read")


class Attachments:
    """Attaches a study's files to it and to its running trials, each name once.

    Optuna lets nothing be attached to a trial that has ended. A file that cannot be attached, on a
    full disk for example, is left out; `tell` is given the reason of the first one.
    """

    def __init__(
        self,
        storage: BaseStorage,
        study: optuna.Study,
        study_id: int,
        folder: StudyFolder,
        tell: Callable[[str], None],
    ) -> None:
        self._storage = storage
        self._study = study
        self._study_id = study_id
        self._folder = folder
        self._store = WholeFiles(folder)
        self._tell = tell
        self._has_told = False

    def attach_world(self, trial: Trial, record: Record) -> None:
        """Attach to a trial what one of its worlds left: a trace, or output and stacks."""
        config = Config.from_json(trial.user_attrs["config"])
        if isinstance(record.outcome, Measurement):
            self._attach_trace(trial, self._folder.trace(config))
        elif record.phase == "trace":
            self._attach_files(trial, self._folder.trace_failure(config), prefix="trace-")
        else:
            self._attach_files(trial, self._folder.failure(config, max(0, record.block)))

    def attach_answer(self) -> None:
        """Attach the answer to the study; it replaces an earlier one."""
        folder, known = self._folder, self._known(self._study)
        written = sorted(folder.manifest.files())
        figures = [path for path in written if path.match("figures/*.png")]
        for file in (folder.report, folder.recommended, folder.trials_csv, *figures):
            if file.is_file():
                self._put(self._study, file, file.name, known.get(file.name))

    def _attach_files(self, trial: Trial, folder: Path, prefix: str = "") -> None:
        known = self._known(trial)
        for file in sorted(folder.glob("*")):
            name = f"{prefix}{file.name}"
            if not self._holds(known.get(name)):
                self._put(trial, file, name, known.get(name))

    def _attach_trace(self, trial: Trial, trace: Path) -> None:
        name = f"{trace.name}.gz"
        known = self._known(trial).get(name)
        if self._holds(known) or not trace.is_file():
            return
        with self._costing_one_file(trial, name), _scratch() as scratch:
            packed = scratch / "packed"
            packed.write_bytes(gzip.compress(trace.read_bytes(), compresslevel=1, mtime=0))
            self._put(trial, packed, name, known)

    @contextmanager
    def _costing_one_file(self, owner: Trial | optuna.Study, name: str) -> Iterator[None]:
        """Go on without a file that cannot be written."""
        try:
            yield
        except OSError as error:
            self._unlist(owner, name)
            if not self._has_told:
                self._has_told = True
                reason = os.strerror(error.errno) if error.errno else str(error)
                self._tell(
                    f"the dashboard will lack files: {name} cannot be written to "
                    f"{self._folder.artifacts}: {reason}"
                )

    def _unlist(self, owner: Trial | optuna.Study, name: str) -> None:
        """Take an artifact from the list that Optuna has put it on, unless its file is there."""
        artifact_id = self._known(owner).get(name)
        if artifact_id is None or self._holds(artifact_id):
            return
        # The dashboard itself deletes artifacts so.
        key, nothing = f"{_KEY}{artifact_id}", json.dumps(None)
        if isinstance(owner, Trial):
            self._storage.set_trial_system_attr(self._trial_id(owner), key, nothing)
        else:
            self._storage.set_study_system_attr(self._study_id, key, nothing)

    def _trial_id(self, trial: Trial) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, trial.number)

    def _known(self, owner: Trial | optuna.Study) -> dict[str, str]:
        """The ids of what is attached, by file name."""
        if isinstance(owner, Trial):
            attributes = self._storage.get_trial_system_attrs(self._trial_id(owner))
        else:
            attributes = self._storage.get_study_system_attrs(self._study_id)
        # Optuna's own listing fails where somebody deleted an artifact in the dashboard, which
        # leaves a null.
        found = [json.loads(text) for key, text in attributes.items() if key.startswith(_KEY)]
        return {each["filename"]: each["artifact_id"] for each in found if each is not None}

    def _holds(self, artifact_id: str | None) -> bool:
        return artifact_id is not None and self._store.holds(artifact_id)

    def _put(
        self, owner: Trial | optuna.Study, file: Path, name: str, artifact_id: str | None
    ) -> None:
        """Attach a file under a name, or in place of the artifact that has this name."""
        with self._costing_one_file(owner, name):
            if artifact_id is not None:
                with file.open("rb") as content:
                    self._store.write(artifact_id, content)
                return
            with _scratch() as scratch:
                # Optuna calls an artifact as its file is called.
                named = scratch / name
                named.symlink_to(file.resolve())
                upload_artifact(
                    artifact_store=self._store,
                    file_path=str(named),
                    study_or_trial=owner,
                    storage=self._storage,
                    mimetype=_mimetype(named),
                    # It would guess `gzip`: a browser would unpack the file, but keep its name.
                    encoding="identity" if named.suffix == ".gz" else None,
                )


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rpc-tuner-") as folder:
        yield Path(folder)


def _mimetype(file: Path) -> str | None:
    """The type of a file whose name would not give it, or would give a wrong one."""
    if file.suffix == ".gz":
        return "application/gzip"
    return "text/plain" if file.suffix in (".stderr", ".stdout", ".stacks") else None
