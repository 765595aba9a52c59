"""Files that stand beside a study and its trials: Optuna's artifacts."""

import gzip
import json
import tempfile
from collections.abc import Iterable
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
    """Optuna's store in a folder, in which no file is ever there in part."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def write(self, artifact_id: str, content_body: BinaryIO) -> None:
        """Keep the content under this id, in place of what was there."""
        with written_atomically(self._folder / artifact_id) as partial:
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
        """Refused, as `write` is."""
        raise PermissionError("the artifacts of several studies can only be read")


class Attachments:
    """Attaches a study's files to it and to its running trials, each name once.

    Optuna lets nothing be attached to a trial that has ended.
    """

    def __init__(
        self, storage: BaseStorage, study: optuna.Study, study_id: int, folder: StudyFolder
    ) -> None:
        self._storage = storage
        self._study = study
        self._study_id = study_id
        self._folder = folder
        self._store = WholeFiles(folder.artifacts)

    def attach_world(self, trial: Trial, record: Record) -> None:
        """Attach what a world has left to its trial, unless it is attached: a trace, or stacks."""
        config = Config.from_json(trial.user_attrs["config"])
        if isinstance(record.outcome, Measurement):
            self._attach_trace(trial, self._folder.trace(config))
        elif record.phase == "trace":
            self._attach_files(trial, self._folder.trace_failure(config), prefix="trace-")
        else:
            self._attach_files(trial, self._folder.failure(config, max(0, record.block)))

    def attach_answer(self) -> None:
        """Attach the answer to the study; what is there gives way to what is new."""
        folder, known = self._folder, self._known(self._study)
        figures = sorted(folder.figures.glob("*.png"))
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
        with tempfile.TemporaryDirectory(prefix="rpc-tuner-") as scratch:
            packed = Path(scratch) / "packed"
            packed.write_bytes(gzip.compress(trace.read_bytes(), compresslevel=1, mtime=0))
            self._put(trial, packed, name, known)

    def _known(self, owner: Trial | optuna.Study) -> dict[str, str]:
        """The ids of what is attached, by file name."""
        storage, study_id = self._storage, self._study_id
        if isinstance(owner, Trial):
            trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, owner.number)
            attributes = storage.get_trial_system_attrs(trial_id)
        else:
            attributes = storage.get_study_system_attrs(study_id)
        # Optuna's own listing fails where somebody deleted an artifact in the dashboard, which
        # leaves a null.
        found = [json.loads(text) for key, text in attributes.items() if key.startswith(_KEY)]
        return {each["filename"]: each["artifact_id"] for each in found if each is not None}

    def _holds(self, artifact_id: str | None) -> bool:
        return artifact_id is not None and self._store.holds(artifact_id)

    def _put(
        self, owner: Trial | optuna.Study, file: Path, name: str, artifact_id: str | None
    ) -> None:
        """Attach a file under a name, or in the place of the artifact that has this name."""
        if artifact_id is not None:
            with file.open("rb") as content:
                self._store.write(artifact_id, content)
            return
        with tempfile.TemporaryDirectory(prefix="rpc-tuner-") as scratch:
            # Optuna calls an artifact as its file is called.
            named = Path(scratch) / name
            named.symlink_to(file.resolve())
            upload_artifact(
                artifact_store=self._store,
                file_path=str(named),
                study_or_trial=owner,
                storage=self._storage,
                mimetype=_mimetype(named),
                # Not the `gzip` that it guesses: a browser would unpack it, but keep its name.
                encoding="identity" if named.suffix == ".gz" else None,
            )


def _mimetype(file: Path) -> str | None:
    """For names that cannot be guessed, or would be guessed wrong."""
    if file.suffix == ".gz":
        return "application/gzip"
    return "text/plain" if file.suffix in (".stderr", ".stdout", ".stacks") else None
