"""What a dashboard shows beside a study and its trials: files, as Optuna's artifacts, and notes."""

import gzip
import io
import json
import mimetypes
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import optuna
from optuna.artifacts import ArtifactMeta, FileSystemArtifactStore
from optuna.artifacts.exceptions import ArtifactNotFound
from optuna.storages import BaseStorage
from optuna.trial import Trial
from optuna_dashboard import get_note, save_note

from tuner.files import written_atomically
from tuner.plan.config import Config
from tuner.study.folder import StudyFolder
from tuner.study.records import Record
from tuner.world.measurement import Measurement

_KEY = "artifacts:"
_MIMETYPES = {
    ".gz": "application/gzip",
    **dict.fromkeys((".stderr", ".stdout", ".stacks"), "text/plain"),
}


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


class SeveralFolders:
    """The artifacts of several studies, to be read only."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._stores = [FileSystemArtifactStore(folder) for folder in folders]

    def open_reader(self, artifact_id: str) -> BinaryIO:
        """The artifact, from whichever folder holds it."""
        for store in self._stores:
            with suppress(ArtifactNotFound):
                return store.open_reader(artifact_id)
        raise ArtifactNotFound(f"there is no artifact {artifact_id}")

    def write(self, artifact_id: str, content_body: BinaryIO | None = None) -> None:
        """Refused, as to `remove` it: a copy of a study has no artifacts of its own."""
        raise PermissionError("the artifacts of several studies can only be read")

    remove = write


class Attachments:
    """Attaches files to a study and to its running trials, each name once; `notify` is given the
    reason of the first file that cannot be attached, and is left out."""

    def __init__(
        self,
        storage: BaseStorage,
        study: optuna.Study,
        study_id: int,
        folder: StudyFolder,
        notify: Callable[[str], None],
    ) -> None:
        self._storage, self._study, self._study_id = storage, study, study_id
        self._folder, self._store = folder, WholeFiles(folder)
        self._notify = notify
        self._has_notified = False

    def attach_world(self, trial: Trial, config: Config, record: Record) -> None:
        """Attach to a trial what one of its worlds left: a trace, or output and stacks."""
        folder, known = self._folder, self._known(trial)
        if isinstance(record.outcome, Measurement):
            trace = folder.trace(config)
            files = {f"{trace.name}.gz": trace} if trace.is_file() else {}
        elif record.phase == "trace":
            files = {f"trace-{path.name}": path for path in folder.trace_failure(config).glob("*")}
        else:
            left = folder.failure(config, record.block, again=record.again, attempt=record.attempt)
            files = {file.name: file for file in left.glob("*")}
        for name, file in sorted(files.items()):
            if name not in known or not (folder.artifacts / known[name]).is_file():
                self._attach(trial, file, name, known.get(name))

    def attach_answer(self) -> None:
        """Attach the answer to the study; it replaces an earlier one."""
        folder, known = self._folder, self._known(self._study)
        figures = [path for path in sorted(folder.manifest.files()) if path.match("figures/*.png")]
        for file in (folder.report, folder.recommended, folder.trials_csv, *figures):
            if file.is_file():
                self._attach(self._study, file, file.name, known.get(file.name))

    def _attach(
        self, owner: Trial | optuna.Study, file: Path, name: str, artifact_id: str | None
    ) -> None:
        """Attach a file under a name, packed if that says so; one that cannot be written is not."""
        try:
            with file.open("rb") as content:
                kept: BinaryIO = content
                if file.suffix != ".gz" and name.endswith(".gz"):
                    kept = io.BytesIO(gzip.compress(content.read(), compresslevel=1, mtime=0))
                self._put(owner, kept, name, artifact_id)
        except OSError as error:
            if not self._has_notified:
                self._has_notified = True
                self._notify(
                    f"the dashboard will lack files: {name} cannot be written to "
                    f"{self._folder.artifacts}: {error.strerror or error}"
                )

    def _put(
        self, owner: Trial | optuna.Study, content: BinaryIO, name: str, artifact_id: str | None
    ) -> None:
        """Attach content, or replace an artifact; Optuna lists a file before it is there."""
        if artifact_id is not None:
            self._store.write(artifact_id, content)
            return
        artifact_id = str(uuid.uuid4())
        self._store.write(artifact_id, content)
        known = _MIMETYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0]
        # A packed file is not encoded by gzip: a browser would unpack it, but keep its name.
        encoding = "identity" if name.endswith(".gz") else None
        meta = ArtifactMeta(artifact_id, name, known or "application/octet-stream", encoding)
        key, listed = f"{_KEY}{artifact_id}", json.dumps(asdict(meta))
        if isinstance(owner, Trial):
            self._storage.set_trial_system_attr(self._id_of(owner), key, listed)
        else:
            self._storage.set_study_system_attr(self._study_id, key, listed)

    def _id_of(self, trial: Trial) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, trial.number)

    def _known(self, owner: Trial | optuna.Study) -> dict[str, str]:
        if isinstance(owner, Trial):
            attributes = self._storage.get_trial_system_attrs(self._id_of(owner))
        else:
            attributes = self._storage.get_study_system_attrs(self._study_id)
        # Optuna's own listing fails where somebody deleted an artifact in the dashboard, which
        # leaves a null.
        found = [json.loads(text) for key, text in attributes.items() if key.startswith(_KEY)]
        return {each["filename"]: each["artifact_id"] for each in found if each is not None}


def put_note(owner: optuna.Study | Trial, text: str) -> None:
    """Give a study or a trial this note, in Markdown; nothing is written if it has the same."""
    if get_note(owner) != text:
        save_note(owner, text)
