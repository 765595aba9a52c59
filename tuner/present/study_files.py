"""The files that a study leaves in its folder, for whoever wants the answer."""

from collections.abc import Mapping
from pathlib import Path

from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.figures import study_figures, write_figures
from tuner.present.report.study_report import write_report
from tuner.present.tables import write_trials_csv
from tuner.recommended.building import write_recommended
from tuner.study.answer import StudyAnswer
from tuner.study.folder import StudyFolder
from tuner.trace.files.reader import read_trace
from tuner.trace.model.trace import Trace


def write_answer(answer: StudyAnswer) -> None:
    """Write `trials.csv` and `recommended.json`; an unfinished study recommends nothing."""
    folder = StudyFolder(answer.plan.out)
    write_trials_csv(answer.trials, folder.trials_csv)
    if answer.best is None:
        folder.recommended.unlink(missing_ok=True)
    else:
        write_recommended(answer, folder.recommended)


def write_study_report(answer: StudyAnswer, page: Path | None = None) -> Path:
    """Draw the figures, and write the report with them; returns its path.

    `page` is a place for it other than the study's folder; the figures go to a folder beside it.
    """
    folder = StudyFolder(answer.plan.out)
    drawn_to = folder.figures if page is None else page.with_name(f"{page.stem}_figures")
    page = page or folder.report
    figures = study_figures(answer, _traces(answer))
    write_figures(figures, drawn_to)
    write_report(answer, figures, page)
    return page


def _traces(answer: StudyAnswer) -> Mapping[str, Trace]:
    """The traces of baseline and winner, by role; those that are there and can be read."""
    folder, traces = StudyFolder(answer.plan.out), {}
    for role, row in answer.why.items():
        try:
            traces[role] = read_trace(folder.trace(Config.from_json(row.config)))
        except UsageError:
            continue  # moved away, or none was taken
    return traces
