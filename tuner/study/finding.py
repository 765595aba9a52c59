"""Studies that were searched before, by the names and folders that a person knows them by."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import UsageError
from tuner.files import shown
from tuner.study.folder import STUDIES, StudyFolder, studies_in
from tuner.study.storage.address import StudyAddress, StudyPlace
from tuner.text import did_you_mean

if TYPE_CHECKING:
    from tuner.study.answer import StudyAnswer


def find_study(
    reference: str, *, storage: str | None = None, out: Path | None = None
) -> "StudyAnswer":
    """The answer of a study, by its name or the path of its folder, and what its search was given;
    UsageError if it is not there, or cannot be read."""
    # Late: a dashboard asks for the place alone, and does not wait for pandas.
    from tuner.study.stored import stored_answer

    return stored_answer(place_of(reference, storage=storage, out=out))


def place_of(reference: str, *, storage: str | None = None, out: Path | None = None) -> StudyPlace:
    """Where the study is that `find_study` finds. UsageError if it is not there."""
    if storage is None:
        return _in_folder(out or _folder_of(reference), None if out is None else reference)
    place = StudyPlace.named(reference, storage=storage, out=out)
    if reference not in (names := place.address.names()):
        tail = did_you_mean(reference, names) if names else "; it holds none"
        raise UsageError(f"there is no study {reference!r} in {place.address}{tail}")
    return place


def places_in(folder: Path) -> list[StudyPlace]:
    """The studies of one folder's database, by name. UsageError if it cannot be opened."""
    names = StudyAddress.in_file(StudyFolder(folder).database, "").names()
    return [StudyPlace.named(name, out=folder) for name in sorted(names)]


def earlier_studies(place: StudyPlace) -> Iterator[StudyPlace]:
    """The studies in the storage of a new one, or in its folder's folder, the latest first."""
    address, folder = place
    if not address.in_own_folder:
        for name in reversed(address.names()):
            yield StudyPlace.named(name, storage=address.url)
        return
    written_s = dict[Path, float]()
    for each in studies_in(folder.root.absolute().parent):
        with suppress(FileNotFoundError):  # another search deletes it just now
            written_s[each] = StudyFolder(each).database.stat().st_mtime
    for each in sorted(written_s, key=written_s.__getitem__, reverse=True):
        with suppress(UsageError):
            yield from places_in(each)


def _folder_of(reference: str) -> Path:
    """`studies/NAME`, or the folder itself, which may be given as the path of its database."""
    named = Path(reference)
    if named.name == StudyFolder(Path()).database.name:
        named = named.parent
    for folder in (STUDIES / reference, named):
        if reference and StudyFolder(folder).database.is_file():
            return folder
        if reference and (begun := StudyFolder(folder)).is_begun:
            raise UsageError(
                f"the search of {reference} failed before its first world, as "
                f"{shown(begun.first_run)} tells: give its whole command again"
            )
    known = [folder.name for folder in studies_in(STUDIES)]
    tail = did_you_mean(reference, known) if known else f"; the folder {STUDIES} holds none"
    raise UsageError(
        f"there is no study {reference!r}{tail}. Give the name of a study in {STUDIES.resolve()} "
        "or the path of its folder. One that was searched with --storage URL needs that again"
    )


def _in_folder(folder: Path, name: str | None) -> StudyPlace:
    """The study `name` of a folder's database; without a name, its only one."""
    places = {place.address.name: place for place in places_in(folder)}
    if not places:
        raise UsageError(f"there is no study in the folder {folder}")
    if name is None and len(places) > 1:
        raise UsageError(
            f"the folder {folder} holds the studies {', '.join(places)}: name one of them, "
            f"with --out {folder}"
        )
    if name is not None and name not in places:
        tail = did_you_mean(name, [*places])
        raise UsageError(f"there is no study {name!r} in the folder {folder}{tail}")
    return places[name or next(iter(places))]
