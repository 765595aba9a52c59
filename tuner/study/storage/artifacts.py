"""What a dashboard shows beside a study and its trials: files, as Optuna's artifacts, and notes."""

import gzip
import io
import json
import mimetypes
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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
# The page does not ask again for a trial that has ended.
_LATER = "at the end of the search; reload this page then."


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
    full disk for example, is left out; `notify` is given the reason of the first one.
    """

    def __init__(
        self,
        storage: BaseStorage,
        study: optuna.Study,
        study_id: int,
        folder: StudyFolder,
        notify: Callable[[str], None],
    ) -> None:
        self._storage = storage
        self._study = study
        self._study_id = study_id
        self._folder = folder
        self._store = WholeFiles(folder)
        self._notify = notify
        self._has_notified = False

    def attach_world(self, trial: Trial, config: Config, record: Record) -> None:
        """Attach to a trial what one of its worlds left: a trace, or output and stacks."""
        if isinstance(record.outcome, Measurement):
            self._attach_trace(trial, self._folder.trace(config))
        elif record.phase == "trace":
            self._attach_files(trial, self._folder.trace_failure(config), prefix="trace-")
        else:
            folder = self._folder.failure(
                config, record.block, again=record.again, attempt=record.attempt
            )
            self._attach_files(trial, folder)

    def attach_answer(self) -> None:
        """Attach the answer to the study; it replaces an earlier one."""
        folder, known = self._folder, self._known(self._study)
        written = sorted(folder.manifest.files())
        figures = [path for path in written if path.match("figures/*.png")]
        for file in (folder.report, folder.recommended, folder.trials_csv, *figures):
            if file.is_file():
                self._attach(self._study, file, file.name, known.get(file.name))

    def _attach_files(self, trial: Trial, folder: Path, prefix: str = "") -> None:
        known = self._known(trial)
        for file in sorted(folder.glob("*")):
            name = f"{prefix}{file.name}"
            if not self._holds(known.get(name)):
                self._attach(trial, file, name, known.get(name))

    def _attach(
        self, owner: Trial | optuna.Study, file: Path, name: str, artifact_id: str | None
    ) -> None:
        with self._costing_one_file(name), file.open("rb") as content:
            self._put(owner, content, name, artifact_id)

    def _attach_trace(self, trial: Trial, trace: Path) -> None:
        name = f"{trace.name}.gz"
        known = self._known(trial).get(name)
        if self._holds(known) or not trace.is_file():
            return
        with self._costing_one_file(name):
            packed = gzip.compress(trace.read_bytes(), compresslevel=1, mtime=0)
            self._put(trial, io.BytesIO(packed), name, known)

    @contextmanager
    def _costing_one_file(self, name: str) -> Iterator[None]:
        """Go on without a file that cannot be written."""
        try:
            yield
        except OSError as error:
            if not self._has_notified:
                self._has_notified = True
                reason = os.strerror(error.errno) if error.errno else str(error)
                self._notify(
                    f"the dashboard will lack files: {name} cannot be written to "
                    f"{self._folder.artifacts}: {reason}"
                )

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
        self, owner: Trial | optuna.Study, content: BinaryIO, name: str, artifact_id: str | None
    ) -> None:
        """Attach content under a name, or in place of the artifact that has this name.

        Optuna's own function lists a file before it is there.
        """
        if artifact_id is not None:
            self._store.write(artifact_id, content)
            return
        artifact_id = str(uuid.uuid4())
        self._store.write(artifact_id, content)
        # A packed file is not encoded by gzip: a browser would unpack it, but keep its name.
        encoding = "identity" if name.endswith(".gz") else None
        meta = ArtifactMeta(
            artifact_id=artifact_id, filename=name, mimetype=_mimetype(name), encoding=encoding
        )
        key, listed = f"{_KEY}{artifact_id}", json.dumps(asdict(meta))
        if isinstance(owner, Trial):
            self._storage.set_trial_system_attr(self._trial_id(owner), key, listed)
        else:
            self._storage.set_study_system_attr(self._study_id, key, listed)


def _mimetype(name: str) -> str:
    """By the ending of a file's name."""
    ending = Path(name).suffix
    if ending == ".gz":
        return "application/gzip"
    if ending in (".stderr", ".stdout", ".stacks"):
        return "text/plain"
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def put_note(owner: optuna.Study | Trial, text: str) -> None:
    """Give a study or a trial this note, in Markdown; nothing is written if it has the same."""
    if get_note(owner) != text:
        save_note(owner, text)


def announce(study: optuna.Study, trials: Iterable[Trial]) -> None:
    """The notes of a study that is being measured: its trials have names, but no numbers yet."""
    put_note(study, f"Being measured. The verdict will be here {_LATER}")
    for trial in trials:
        label = trial.user_attrs["label"]
        put_note(trial, f"## {label}\n\nBeing measured. The numbers will be here {_LATER}")
