"""Claims a study for one search: existence, owner and locks are one check, before all else."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import DamagedStorageError, StorageLostError, UsageError
from tuner.study.folder import StudyFolder
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import is_half_made as half_made
from tuner.study.storage.study_lock import lock_file, study_lock
from tuner.text import first_of

_MOST_NAMED = 3
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_SEALED = {errno.EACCES, errno.EPERM, errno.ENOENT, errno.EIO}


@dataclass(frozen=True)
class Claim:
    """A study that nobody else measures as long as it is claimed."""

    place: StudyPlace
    resumes: bool
    """Whether the study exists, and is to be gone on with."""
    replaces: bool = False
    """Whether an earlier study is to be deleted for it."""

    def begin(self) -> None:
        """Remove what an earlier study of this name left, and mark the folder as this study's."""
        address, folder = self.place
        address.delete()
        kept = _own_files(self.place)
        _adopt(self.place)
        folder.manifest.remove_files(but=kept)
        folder.manifest.begin(address.name, kept)

    def mark_folder(self) -> None:
        """Mark the folder as this study's, if it is not yet."""
        _adopt(self.place)
        if self.place.folder.manifest.study() is None:
            self.place.folder.manifest.begin(self.place.address.name, _own_files(self.place))

    def keep_first_run(self) -> None:
        """Keep what a first run left that failed; a later search of the study removes it."""
        folder = self.place.folder
        if folder.first_run.exists():
            self.mark_folder()
            folder.manifest.add(*folder.first_run.glob("*"))


@contextmanager
def claimed(place: StudyPlace, *, resume: bool, overwrite: bool) -> Iterator[Claim]:
    """Claim a study for one search, whose caller then begins or continues it.

    Nothing of an earlier study is touched before the caller does so; if the caller never does,
    nothing new is left behind.

    Raises:
        UsageError: another search has the study or its folder; the study exists, or does not, and
            neither `resume` nor `overwrite` says what to do; or the folder is not for it.
    """
    place.folder.check_writable()
    with place.folder.locked(), study_lock(place.address) as hold:
        if place.address.retry is not None:
            place.address.retry.guard = hold
        with _telling_what_helps(place):
            resumes = _resumes(place, resume=resume, overwrite=overwrite)
            is_there = overwrite and (
                place.folder.manifest.study() is not None
                or place.address.name in _names(place, overwrite=overwrite)
            )
            yield Claim(place, resumes, replaces=is_there)


@contextmanager
def _telling_what_helps(place: StudyPlace) -> Iterator[None]:
    """Say what goes on where the study is damaged, or its folder can no longer be written."""
    root = place.folder.root
    try:
        yield
    except DamagedStorageError as error:
        if not place.address.in_own_folder:
            raise
        raise UsageError(f"{error}; --overwrite deletes it and begins anew") from error
    except OSError as error:
        named = None if error.filename is None else Path(os.fsdecode(error.filename)).absolute()
        is_ours = named is not None and root.absolute() in named.parents
        if error.errno not in _FULL and not (is_ours and error.errno in _SEALED):
            raise
        raise StorageLostError(
            f"the search ends here: the study folder {root} cannot be written "
            f"({os.strerror(error.errno)}); everything measured is kept, and when it can be "
            "written the same command with --resume continues it"
        ) from error


def _resumes(place: StudyPlace, *, resume: bool, overwrite: bool) -> bool:
    """Whether an existing study is to be resumed; UsageError if what exists is in the way."""
    address, folder = place
    name = address.name
    names = _names(place, overwrite=overwrite)
    exists = name in names
    is_half_made = exists and not overwrite and half_made(address)
    where = folder.root if address.in_own_folder else address
    if resume and not exists:
        raise UsageError(
            f"there is no study {name} in {where} to resume: without --resume the same command "
            "begins one"
        )
    if is_half_made and not resume:
        raise UsageError(
            f"the study {name} in {where} was not created completely and holds nothing: --resume "
            "or --overwrite begins it anew"
        )
    if exists and not resume and not overwrite:
        raise UsageError(
            f"there is a study {name} in {where} already: --resume continues it, "
            f"--overwrite deletes it first, another {_elsewhere(place)} keeps it"
        )
    owner = folder.manifest.study()
    owners = [owner] if owner else names if address.in_own_folder else []
    if others := [each for each in owners if each != name]:
        raise UsageError(
            f"the folder {folder.root} holds the study {others[0]}; give {name} another --out"
        )
    if not owners and not (overwrite and folder.manifest.path.is_file()):
        _check_empty(place)
    if owner and not exists and not overwrite and _has_files(place):
        raise UsageError(
            f"the folder {folder.root} holds the files of a study {name} that is not in {where}: "
            "--overwrite deletes them, another --out keeps them"
        )
    return exists and resume and not is_half_made


def _elsewhere(place: StudyPlace) -> str:
    """The flags that put a study into another place than this one."""
    usual = StudyPlace.named(place.address.name).folder
    return "--study" if place.folder == usual else "--study with another --out"


def _names(place: StudyPlace, *, overwrite: bool) -> list[str]:
    """The studies of the storage; none of a damaged one that is to be replaced."""
    try:
        return place.address.names()
    except DamagedStorageError:
        if overwrite and place.address.in_own_folder:
            return []
        raise


def _check_empty(place: StudyPlace) -> None:
    """UsageError if the folder holds files, none of which a study is known to have written."""
    folder = place.folder
    locks = {folder.lock.name, *_names_in(folder, lock_file(place.address))}
    if names := sorted({path.name for path in folder.root.iterdir()} - locks):
        raise UsageError(
            f"the folder {folder.root} holds files that no study wrote "
            f"({first_of(names, _MOST_NAMED)}): "
            "give --out a new or an empty folder"
        )


def _has_files(place: StudyPlace) -> bool:
    """Whether the folder holds files of a study, besides those that a new one keeps."""
    own = _own_files(place)
    return any(path.exists() for path in place.folder.manifest.files() if path not in own)


def _own_files(place: StudyPlace) -> list[Path]:
    """The files of the folder that a new study keeps: locks, database, and of its first run."""
    address, folder = place
    files = [
        folder.lock,
        *folder.first_run.glob("*"),
        *(folder.root / n for n in _names_in(folder, lock_file(address))),
    ]
    return [*files, folder.database] if address.in_own_folder else files


def _names_in(folder: StudyFolder, file: Path | None) -> list[str]:
    """The name of a file, if it is directly in the folder."""
    return [file.name] if file is not None and file.parent == folder.root.resolve() else []


def _adopt(place: StudyPlace) -> None:
    """Give the folder of a study that an older version made its manifest."""
    address, folder = place
    if folder.manifest.study() is None and address.in_own_folder and folder.database.exists():
        folder.manifest.begin(address.name, folder.written_by_older_versions())
