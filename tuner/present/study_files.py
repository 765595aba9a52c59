"""The files that tell a study's answer: table, recommendation, report and figures."""

from collections.abc import Mapping
from pathlib import Path

from tuner.errors import UsageError
from tuner.present.answer_file import write_answer_file
from tuner.present.study_list import State, entry_of
from tuner.present.summary import summary_parts
from tuner.present.tables import write_trials_csv
from tuner.recommended.building import write_recommended
from tuner.study.answer import Contender, StudyAnswer
from tuner.trace.files.reader import read_trace
from tuner.trace.model.trace import Trace

SUFFIXES = ("svg", "png")


def write_answer(answer: StudyAnswer) -> None:
    """Write `trials.csv`, `recommended.json` and `answer.json`.

    An unfinished study recommends nothing.
    """
    folder = answer.folder
    folder.manifest.add(folder.trials_csv)
    write_trials_csv(answer.trials, folder.trials_csv)
    if answer.best is None:
        folder.recommended.unlink(missing_ok=True)
    else:
        folder.manifest.add(folder.recommended)
        write_recommended(answer, folder.recommended)
    # This session ends here, though it still holds the lock by which it would be running.
    state: State = "interrupted" if answer.interrupted else "finished"
    write_answer_file(folder, entry_of(answer, state), answer.to_json(), summary_parts(answer))


def write_study_report(answer: StudyAnswer, page: Path | None = None) -> Path:
    """Draw the figures, and write the report with them.

    Args:
        answer: The study.
        page: Where to write the report; None: in the study's folder. Figures go to a folder beside
            it.

    Returns:
        The report's path.
    """
    # Late: a study is opened, and its search begins, without waiting for matplotlib.
    from tuner.present.figures import study_figures, write_figures
    from tuner.present.report.study_report import write_report

    folder = answer.folder
    figures = study_figures(answer, _traces(answer))
    if page is None:
        page, drawn_to = folder.report, folder.figures
        folder.manifest.begin_if_empty(answer.study)
        drawn = [drawn_to / f"{each.name}.{suffix}" for each in figures for suffix in SUFFIXES]
        folder.manifest.add(page, *drawn)
    else:
        drawn_to = page.with_name(f"{page.stem}_figures")
    write_figures(figures, drawn_to)
    write_report(answer, figures, page)
    return page


def _traces(answer: StudyAnswer) -> Mapping[Contender, Trace]:
    """The traces of the contenders that are there and can be read."""
    folder = answer.folder
    traces: dict[Contender, Trace] = {}
    for contender, row in answer.why.items():
        try:
            traces[contender] = read_trace(folder.trace(row.config))
        except UsageError:
            continue  # it was moved away, or never written
    return traces
