"""The studies of a folder or a storage, a line each: what was asked, what came of it, how far."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuner.errors import UsageError
from tuner.files import shown
from tuner.plan.config import Config
from tuner.present.study_files import State, entry_of, kept_answer
from tuner.study.file_lock import holder_of
from tuner.study.folder import StudyFolder, begun_in, studies_in
from tuner.text import UNTOLD, command, duration, plural, times_cell

if TYPE_CHECKING:
    from tuner.study.answer import StudyAnswer
    from tuner.study.storage.address import StudyPlace

LIST_FORMAT = 1
LEAST_WIDTH = 120
"""Characters of a line that a table takes, at the least."""

Entry = Mapping[str, Any]
"""A study's entry in `list --json`."""


class StudyList(NamedTuple):
    """The studies that are there, and why some cannot be read."""

    studies: tuple[Entry, ...]
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of `list --json`."""
        return {"format": LIST_FORMAT, **self._asdict()}


def studies_of_folder(folder: Path) -> StudyList:
    """The studies in the folders of `folder`, or in itself; UsageError if there is no folder."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; {command('search')} makes studies")
    own = [folder] if StudyFolder(folder).database.is_file() else []
    found = [_read(each) for each in [*own, *studies_in(folder)]]
    begun = [
        f"{shown(each.root)}: its search failed before its first world. See "
        f"{shown(each.first_run)}, and remove the folder once nobody needs it"
        for each in begun_in(folder)
    ]
    return StudyList(
        tuple(study for each in found for study in each.studies),
        (*(problem for each in found for problem in each.problems), *begun),
    )


def _read(folder: Path) -> StudyList:
    """The study that the folder's `answer.json` keeps, or else those that its database holds."""
    if kept := kept_answer(StudyFolder(folder)):
        return StudyList((kept.listed,), ())
    # Late: a study whose answer is kept is listed without Optuna and pandas.
    from tuner.study.storage.address import places_in

    try:
        return _listed(places_in(folder))
    except UsageError as error:
        return StudyList((), (str(error),))


def studies_of_storage(url: str) -> StudyList:
    """The studies of an Optuna storage. UsageError if it cannot be opened."""
    from tuner.study.storage.address import StudyAddress, StudyPlace

    names = StudyAddress(url, "", in_own_folder=False).names()
    return _listed([StudyPlace.named(name, storage=url) for name in sorted(names)])


def _listed(places: "Iterable[StudyPlace]") -> StudyList:
    from tuner.study.stored import stored_answer

    studies, unread = [], []
    for place in places:
        try:
            answer = stored_answer(place)
        except UsageError as error:
            unread.append(str(error))
        else:
            studies.append(entry_of(answer, state_of(answer)))
    return StudyList(tuple(studies), tuple(unread))


def state_of(answer: "StudyAnswer") -> State:
    """Whether a study is finished, or else whether a search of it runs now."""
    if not answer.interrupted:
        return "finished"
    return "interrupted" if holder_of(answer.files.lock) is None else "running"


class StudyLine(NamedTuple):
    """The cells of a study."""

    study: str
    subject: str
    verdict: str
    speedup: str
    date: str
    machine: str
    how_far: str

    @classmethod
    def of(cls, entry: Entry) -> "StudyLine":
        """Those of its entry."""
        here = entry["environment"]
        failed = sum(cause["worlds"] for cause in entry["causes"])
        failing = f", {plural(failed, 'world')} failed" if failed else ""
        spent = f"{duration(entry['elapsed_s'])} of {entry['limit']}"
        name, folder = entry["study"], Path(entry["folder"])
        return cls(
            # A copy of a folder has the same study.
            study=name if folder.name == name else f"{name} in {shown(folder)}",
            subject=str(entry.get("workload") or entry.get("program") or ""),
            verdict=_verdict(entry),
            speedup=_speedup(entry),
            date=f"{datetime.fromisoformat(entry['measured_at']):%Y-%m-%d %H:%M}",
            machine=f"{plural(here['cpu_count'], 'logical CPU')}, {here['cpu_model']}",
            how_far=f"{entry['state']}, {plural(entry['blocks'], 'block')}{failing}, {spent}",
        )


def _verdict(entry: Entry) -> str:
    """The verdict and what it is about, in a few words."""
    if entry["verdict"] is None:
        return "nothing could run" if entry["state"] == "finished" else "none yet"
    best = entry["best"]
    return f"{entry['verdict']}: {'nothing' if best is None else Config.from_json(best)}"


def _speedup(entry: Entry) -> str:
    """How many times as good as the baseline; of a baseline that is kept its strongest rival."""
    rival = entry["challenger"]
    if entry["best"] is None or rival["config"] is None:
        return ""
    if entry["best"] == entry["baseline"]:
        return f"strongest rival {_ratio(rival['speedup'])}"
    if entry["speedup"]["estimate"] is None and rival["config"] != entry["best"]:
        return ""
    return _ratio(entry["speedup"])


def _ratio(found: Mapping[str, Any]) -> str:
    """A ratio of the document, with null for what is too uncertain to say."""
    unknown = {"estimate": math.inf, "ci_low": 0.0, "ci_high": math.inf}
    known = {name: unknown[name] if found[name] is None else found[name] for name in unknown}
    cell = times_cell(*known.values())
    return UNTOLD if cell == "?" else cell


def print_studies(studies: Sequence[Entry], console: Console) -> None:
    """A table; where it has too little room, two lines a study, so that no name is broken."""
    if console.width >= LEAST_WIDTH:
        console.print(studies_table(studies))
        return
    for each in map(StudyLine.of, studies):
        found = f"{each.verdict}, {each.speedup}" if each.speedup else each.verdict
        about = f"{each.subject}; {each.how_far}; {each.date} UTC, {each.machine}"
        console.print(Text(f"{each.study}  {found}", "bold"), soft_wrap=True)
        console.print(Text(f"    {about}"), soft_wrap=True)


def studies_table(studies: Sequence[Entry]) -> Table:
    """A line per study; a machine that all of them were measured on is named once, below."""
    lines = [StudyLine.of(each) for each in studies]
    is_one = len({line.machine for line in lines}) == 1
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption_justify="left",
        caption_style="", caption=f"On {lines[0].machine}." if is_one else None,
    )  # fmt: skip
    headings = ("study", "of", "verdict", "speed-up", "date (UTC)", "machine", "how far")
    shown = [place for place, each in enumerate(headings) if not (is_one and each == "machine")]
    for place in shown:
        whole = headings[place] in ("study", "date (UTC)")
        table.add_column(headings[place], no_wrap=whole, overflow="ellipsis" if whole else "fold")
    for line in lines:
        table.add_row(*(line[place] for place in shown))
    return table
