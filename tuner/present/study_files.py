"""The files that tell a study's answer: table, recommendation, report, figures, `answer.json`.

`answer.json` has a study as it is shown, listed and exported, to be read without Optuna and pandas.
A session removes it as it begins and writes it at its end, so it is never older than the storage.
"""

import json
import re
import shlex
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tuner.errors import UsageError
from tuner.files import read_bounded, shown, written_atomically
from tuner.present.terminal import Summary
from tuner.study.file_lock import holder_of
from tuner.study.folder import STUDIES, StudyFolder, folder_of, names_in

if TYPE_CHECKING:
    from tuner.study.answer import Contender, StudyAnswer
    from tuner.trace.model.trace import Trace

ANSWER_FORMAT = 3
_ANYWHERE = StudyFolder(Path("/=:=study"))
"""Stands in a kept summary for the study's folder, which may be moved, or seen from elsewhere."""

State = Literal["finished", "running", "interrupted"]


def write_answer(answer: "StudyAnswer") -> None:
    """Write `trials.csv`, `answer.json`, and `recommended.json` of a study that is finished."""
    from tuner.json_text import json_of
    from tuner.present.how_to_use import FORMS, exported
    from tuner.present.summary import summary_of
    from tuner.present.tables import write_trials_csv
    from tuner.recommended.building import write_recommended

    files = answer.files
    files.manifest.add(files.trials_csv)
    write_trials_csv(answer.trials, files.trials_csv)
    if answer.best is None:
        files.recommended.unlink(missing_ok=True)
    else:
        files.manifest.add(files.recommended)
        write_recommended(answer, files.recommended)
    content = {
        "format": ANSWER_FORMAT,
        # This session ends here, though it still holds the lock by which it would be running.
        "listed": entry_of(answer, "interrupted" if answer.interrupted else "finished"),
        "document": answer.to_json(),
        "summary": summary_of(replace(answer, files=_ANYWHERE))._asdict(),
        "exports": {} if answer.best is None else {f: exported(answer, f) for f in FORMS},
    }
    files.manifest.add(files.answer)
    with written_atomically(files.answer) as partial:
        # As it is read: JSON has no NaN and no tuples.
        partial.write_bytes(json_of({**content, "check": _check(json.loads(json_of(content)))}))


def prepare_drawing() -> None:
    """Import what draws, where there is time for it: while a program's packages are imported."""
    import tuner.present.figures
    import tuner.present.pages  # noqa: F401


def write_study_report(answer: "StudyAnswer", page: Path | None = None) -> Path:
    """Draw the figures, write the report with them, and return its path.

    The figures go to a folder beside `page`, which is in the study's folder unless it is given.
    """
    # Late: a study is opened, and its search begins, without waiting for matplotlib.
    from tuner.present.figures import study_figures, write_figures
    from tuner.present.pages import report_html

    files = answer.files
    figures = study_figures(answer, _traces(answer))
    if page is not None:
        write_figures(figures, page.with_name(f"{page.stem}_figures"))
        return _written(report_html(answer, figures), page)
    drawn = [f"{each.name}.{suffix}" for each in figures for suffix in ("svg", "png")]
    files.manifest.begin_if_empty(answer.study)
    files.manifest.add(files.report, *(files.figures / name for name in drawn))
    write_figures(figures, files.figures)
    return _written(report_html(answer, figures), files.report)


def write_comparison(answers: "Sequence[StudyAnswer]", page: Path) -> Path:
    """Write the page of several studies side by side, and its figures to a folder beside it.

    Returns the page's path. UsageError if they cannot be compared.
    """
    from tuner.present.figures import comparison_figures, write_figures
    from tuner.present.pages import comparison_html
    from tuner.present.studies_compared import Comparison

    comparison = Comparison.of(answers)
    figures = comparison_figures(comparison)
    write_figures(figures, page.with_name(f"{page.stem}_figures"))
    return _written(comparison_html(comparison, figures), page)


def _written(html: str, page: Path) -> Path:
    with written_atomically(page) as partial:
        partial.write_text(html, encoding="utf-8")
    return page


def _traces(answer: "StudyAnswer") -> "dict[Contender, Trace]":
    """The traces of the contenders that are there and can be read."""
    from tuner.trace.files.reader import read_trace

    traces: dict[Contender, Trace] = {}
    for contender, row in answer.why.items():
        with suppress(UsageError):  # it was moved away, or never written
            traces[contender] = read_trace(answer.files.trace(row.config))
    return traces


def entry_of(answer: "StudyAnswer", state: State) -> dict[str, Any]:
    """The study's entry in `list --json`: the document of the study, without its trials."""
    document = answer.to_json()
    del document["trials"], document["format"], document["why"]
    return {
        **document,
        "folder": str(answer.files.root),
        "state": state,
        "configurations": len(answer.rows),
        "budget_s": answer.plan.measuring.budget_s,
        "limit": answer.plan.measuring.limit,
        "measured_at": answer.measured_at.isoformat(timespec="seconds"),
        "environment": answer.environment.model_dump(mode="json"),
    }


class KeptAnswer(NamedTuple):
    """What `answer.json` says, which `list`, `show` and `export` print."""

    folder: StudyFolder
    listed: dict[str, Any]
    document: dict[str, Any]
    summary: Summary | None
    """With its paths as the current folder sees them; None where a shell would have to quote one.
    """
    exports: dict[str, str]
    """What is recommended, by the name of the format; empty where nothing is."""


def kept_answer(folder: StudyFolder) -> KeptAnswer | None:
    """What the folder's file says of its only study; None while a search runs, or if unreadable."""
    if holder_of(folder.lock) is not None:
        return None
    try:
        content = json.loads(read_bounded(folder.answer))
        if content["format"] != ANSWER_FORMAT or content.pop("check") != _check(content):
            return None
        found = KeptAnswer(
            folder=folder,
            listed={**content["listed"], "folder": str(folder.root)},
            document=content["document"],
            summary=_seen_from_here(content["summary"], content["listed"]["study"], folder),
            exports=content["exports"],
        )
        return found if names_in(folder.database) == [found.listed["study"]] else None
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def _check(content: dict[str, Any]) -> int:
    """A checksum: a damaged file is as good as none."""
    return zlib.crc32(json.dumps(content).encode())


def find_kept_answer(reference: str, out: Path | None) -> KeptAnswer | None:
    """That of a study by its name or the path of its folder, as `find_study` finds it."""
    folder = folder_of(reference) if out is None else StudyFolder(out)
    found = folder and kept_answer(folder)
    return found if found and (out is None or found.listed["study"] == reference) else None


def _seen_from_here(kept: dict[str, Any], study: str, folder: StudyFolder) -> Summary | None:
    here = shown(folder.root)
    if shlex.quote(here) != here:
        return None
    anywhere = f"/?{_ANYWHERE.root.name}"  # in the folder / it is named without the slash
    is_usual = folder.root.absolute() == (STUDIES / study).absolute()
    text = re.sub(f" --out {anywhere}", "", json.dumps(kept)) if is_usual else json.dumps(kept)
    # What a shell need not quote, JSON need not either.
    return Summary(**json.loads(re.sub(anywhere, here, text)))
