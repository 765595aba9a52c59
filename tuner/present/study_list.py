"""The studies of a folder or a storage, a line each: what was asked, what came of it, how far."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rich import box
from rich.table import Table

from tuner.errors import UsageError
from tuner.study.answer import StudyAnswer
from tuner.study.finding import places_in, studies_in
from tuner.study.folder import StudyFolder
from tuner.study.locking import holder_of
from tuner.study.storage.address import StudyAddress, StudyPlace
from tuner.study.stored import stored_answer
from tuner.text import UNTOLD, duration, is_told, plural, ratio_text

LIST_FORMAT = 1

State = Literal["finished", "running", "interrupted"]


@dataclass(frozen=True)
class ListedStudy:
    """One study as far as it is."""

    answer: StudyAnswer
    state: State

    @property
    def verdict(self) -> str:
        """The verdict and what it is about, in a few words."""
        answer = self.answer
        if answer.verdict is None:
            return "nothing could run" if self.state == "finished" else "none yet"
        if answer.speedup is None or answer.verdict != "better":
            return f"{answer.verdict}: {answer.best or 'nothing'}"
        told = is_told(answer.speedup.low, answer.speedup.high)
        much = f"{ratio_text(answer.speedup.estimate)} times" if told else UNTOLD
        return f"{answer.verdict}: {answer.best}, {much}"

    @property
    def how_far(self) -> str:
        """The state, what was measured, and of which budget."""
        answer = self.answer
        spent = f"{duration(answer.elapsed_s)} of {answer.plan.measuring.limit}"
        return f"{self.state}, {plural(answer.blocks, 'block')}, {spent}"

    def to_json(self) -> dict[str, Any]:
        """The study's entry in `list --json`: the document of the study, without its trials."""
        answer = self.answer
        document = answer.to_json()
        del document["trials"], document["format"], document["why"]
        return {
            **document,
            "folder": str(answer.folder.root),
            "state": self.state,
            "configurations": len(answer.rows),
            "budget_s": answer.plan.measuring.budget_s,
            "measured_at": answer.measured_at.isoformat(timespec="seconds"),
        }


class StudyList(NamedTuple):
    """The studies that are there, and why some cannot be read."""

    studies: tuple[ListedStudy, ...]
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of `list --json`."""
        return {
            "format": LIST_FORMAT,
            "studies": [each.to_json() for each in self.studies],
            "problems": list(self.problems),
        }


def studies_of_folder(folder: Path) -> StudyList:
    """The studies in the folders of `folder`, or in itself; UsageError if there is no folder."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; python -m tuner.search makes studies")
    places, problems = [], []
    own = [folder] if StudyFolder(folder).database.is_file() else []
    for each in [*own, *studies_in(folder)]:
        try:
            places += places_in(each)
        except UsageError as error:
            problems.append(str(error))
    return _listed(places, problems)


def studies_of_storage(url: str) -> StudyList:
    """The studies of an Optuna storage. UsageError if it cannot be opened."""
    names = StudyAddress(url, "", in_own_folder=False).names()
    return _listed([StudyPlace.named(name, storage=url) for name in sorted(names)], [])


def _listed(places: Iterable[StudyPlace], problems: Sequence[str]) -> StudyList:
    studies, unread = [], [*problems]
    for place in places:
        try:
            answer = stored_answer(place)
        except UsageError as error:
            unread.append(str(error))
        else:
            studies.append(ListedStudy(answer, _state(answer)))
    return StudyList(tuple(studies), tuple(unread))


def _state(answer: StudyAnswer) -> State:
    if not answer.interrupted:
        return "finished"
    return "interrupted" if holder_of(answer.folder.lock) is None else "running"


def studies_table(studies: Sequence[ListedStudy]) -> Table:
    """A line per study."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("study", no_wrap=True)
    for heading in ("of", "verdict"):
        table.add_column(heading, overflow="fold")
    table.add_column("date (UTC)", no_wrap=True)
    table.add_column("how far", overflow="fold")
    for each in studies:
        answer = each.answer
        date = f"{answer.measured_at:%Y-%m-%d %H:%M}"
        table.add_row(answer.study, answer.plan.subject.reference, each.verdict, date, each.how_far)
    return table
