"""The studies of a folder or a storage, a line each: what was asked, what came of it, how far."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tuner.errors import UsageError
from tuner.files import shown
from tuner.plan.config import Config
from tuner.present.answer_file import kept_answer
from tuner.study.file_lock import holder_of
from tuner.study.folder import StudyFolder, begun_in, studies_in
from tuner.text import UNTOLD, duration, plural, times_cell

if TYPE_CHECKING:
    from tuner.study.answer import StudyAnswer
    from tuner.study.storage.address import StudyPlace

LIST_FORMAT = 1
LEAST_WIDTH = 120
"""Characters of a line that a table takes, at the least."""

State = Literal["finished", "running", "interrupted"]


@dataclass(frozen=True)
class ListedStudy:
    """One study as far as it is."""

    entry: Mapping[str, Any]
    """The study's entry in `list --json`."""

    @property
    def verdict(self) -> str:
        """The verdict and what it is about, in a few words."""
        entry = self.entry
        if entry["verdict"] is None:
            return "nothing could run" if entry["state"] == "finished" else "none yet"
        best = entry["best"]
        return f"{entry['verdict']}: {'nothing' if best is None else Config.from_json(best)}"

    @property
    def speedup(self) -> str:
        """How many times as good as the baseline, with the interval.

        Where the baseline is kept, how good its strongest rival is.
        """
        entry, rival = self.entry, self.entry["challenger"]
        if entry["best"] is None or rival["config"] is None:
            return ""
        if entry["best"] == entry["baseline"]:
            return f"strongest rival {_ratio(rival['speedup'])}"
        if entry["speedup"]["estimate"] is None and rival["config"] != entry["best"]:
            return ""
        return _ratio(entry["speedup"])

    @property
    def subject(self) -> str:
        """The workload or the program."""
        return str(self.entry.get("workload") or self.entry.get("program") or "")

    @property
    def date(self) -> str:
        """When it was measured, in UTC."""
        return f"{datetime.fromisoformat(self.entry['measured_at']):%Y-%m-%d %H:%M}"

    @property
    def machine(self) -> str:
        """Where it was measured."""
        here = self.entry["environment"]
        return f"{plural(here['cpu_count'], 'logical CPU')}, {here['cpu_model']}"

    @property
    def how_far(self) -> str:
        """The state, what was measured, and of which budget."""
        entry = self.entry
        spent = f"{duration(entry['elapsed_s'])} of {entry['limit']}"
        # An earlier version's study knows of no causes.
        failed = sum(cause["worlds"] for cause in entry.get("causes", ()))
        failing = f", {plural(failed, 'world')} failed" if failed else ""
        return f"{entry['state']}, {plural(entry['blocks'], 'block')}{failing}, {spent}"


def entry_of(answer: "StudyAnswer", state: State) -> dict[str, Any]:
    """The study's entry in `list --json`: the document of the study, without its trials."""
    document = answer.to_json()
    del document["trials"], document["format"], document["why"]
    return {
        **document,
        "folder": str(answer.folder.root),
        "state": state,
        "configurations": len(answer.rows),
        "budget_s": answer.plan.measuring.budget_s,
        "limit": answer.plan.measuring.limit,
        "measured_at": answer.measured_at.isoformat(timespec="seconds"),
        "environment": answer.environment.model_dump(mode="json"),
    }


class StudyList(NamedTuple):
    """The studies that are there, and why some cannot be read."""

    studies: tuple[ListedStudy, ...]
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The document of `list --json`."""
        return {
            "format": LIST_FORMAT,
            "studies": [dict(each.entry) for each in self.studies],
            "problems": list(self.problems),
        }


def studies_of_folder(folder: Path) -> StudyList:
    """The studies in the folders of `folder`, or in itself; UsageError if there is no folder."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; python -m tuner.search makes studies")
    studies: list[ListedStudy] = []
    problems: list[str] = []
    own = [folder] if StudyFolder(folder).database.is_file() else []
    for each in [*own, *studies_in(folder)]:
        if kept := kept_answer(StudyFolder(each)):
            studies.append(ListedStudy(kept.listed))
        else:
            found = _read(each)
            studies += found.studies
            problems += found.problems
    problems += [
        f"{shown(each.root)}: its search failed before its first world; see "
        f"{shown(each.first_run)}, and remove the folder once nobody needs it"
        for each in begun_in(folder)
    ]
    return StudyList(tuple(studies), tuple(problems))


def _read(folder: Path) -> StudyList:
    """The studies of one folder's database, as Optuna reads it."""
    # Late: a study whose answer is kept is listed without Optuna and pandas.
    from tuner.study.finding import places_in

    try:
        places = places_in(folder)
    except UsageError as error:
        return StudyList((), (str(error),))
    return _listed(places)


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
            studies.append(ListedStudy(entry_of(answer, state_of(answer))))
    return StudyList(tuple(studies), tuple(unread))


def state_of(answer: "StudyAnswer") -> State:
    """Whether a study is finished, or else whether a search of it runs now."""
    if not answer.interrupted:
        return "finished"
    return "interrupted" if holder_of(answer.folder.lock) is None else "running"


def print_studies(studies: Sequence[ListedStudy], console: Console) -> None:
    """A table; where it has too little room, two lines a study, so that no name is broken."""
    if console.width >= LEAST_WIDTH:
        console.print(studies_table(studies))
        return
    for each in studies:
        found = f"{each.verdict}, {each.speedup}" if each.speedup else each.verdict
        date = f"{each.date} UTC"
        console.print(Text(f"{each.entry['study']}  {found}", "bold"), soft_wrap=True)
        console.print(
            Text(f"    {each.subject}; {each.how_far}; {date}, {each.machine}"), soft_wrap=True
        )


def studies_table(studies: Sequence[ListedStudy]) -> Table:
    """A line per study; a machine that all of them were measured on is named once, below."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True,
        caption_justify="left", caption_style="",
    )  # fmt: skip
    machines = dict.fromkeys(each.machine for each in studies)
    is_one = len(machines) == 1
    if is_one:
        table.caption = f"On {next(iter(machines))}."
    table.add_column("study", no_wrap=True)
    for heading in ("of", "verdict", "speed-up"):
        table.add_column(heading, overflow="fold")
    table.add_column("date (UTC)", no_wrap=True)
    for heading in ("how far",) if is_one else ("machine", "how far"):
        table.add_column(heading, overflow="fold")
    for each in studies:
        machine = () if is_one else (each.machine,)
        cells = (each.verdict, each.speedup, each.date, *machine, each.how_far)
        table.add_row(each.entry["study"], each.subject, *cells)
    return table


def _ratio(found: Mapping[str, Any]) -> str:
    """A ratio of the document, of which all or nothing is null."""
    if found["estimate"] is None:
        return UNTOLD
    return times_cell(found["estimate"], found["ci_low"], found["ci_high"])
