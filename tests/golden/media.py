"""Everything that is shown of a stored study, and of a stored trace."""

import json
import re
import tempfile
from collections.abc import Callable
from contextlib import chdir
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from tests.golden.stored_study import load
from tests.present.screen import printed
from tests.trace.analyze.diagnoses import all_rendered
from tuner.json_text import json_of
from tuner.present.analysis import Analysis
from tuner.present.how_to_use import exported
from tuner.present.notes import study_note, trial_notes
from tuner.present.pages import notebook_html, report_html
from tuner.present.summary import print_summary
from tuner.present.tables import write_trials_csv
from tuner.present.trace_summary import Shown, print_trace
from tuner.study.answer import StudyAnswer
from tuner.study.folder import STUDIES, StudyFolder
from tuner.study.stored import find_study
from tuner.trace.files.reader import read_traces

HERE = Path(__file__).parent
STORED_STUDIES = HERE / "studies"
STORED_TRACES = HERE / "traces"
RENDERED = HERE / "rendered"
PLANTED = "planted"
"""The planted traces of `tests/trace/analyze`, which are asked there what is said of them."""

_STYLE = re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL)
# CPUs differ in the last digits of what they sum.
_LONG_NUMBER = re.compile(r"-?\d+\.\d{9,}(e-?\d+)?")


def scenarios() -> list[str]:
    """The names of all that is stored."""
    return [
        *sorted(f"study-{path.stem}" for path in STORED_STUDIES.glob("*.json")),
        *sorted(f"trace-{path.name}" for path in STORED_TRACES.iterdir()),
    ]


def shown(scenario: str) -> dict[str, str]:
    """What each medium shows of a scenario, by the name of a file for it."""
    if scenario == PLANTED:
        return {"diagnoses.txt": all_rendered()}
    kind, _, name = scenario.partition("-")
    media = _study_media(name) if kind == "study" else _trace_media(name)
    return {file: _LONG_NUMBER.sub(_rounded, text) for file, text in media.items()}


def stored(scenario: str) -> dict[str, str]:
    """What was shown of it when it was last renewed, by the name of the file."""
    return {path.name: path.read_text(encoding="utf-8") for path in (RENDERED / scenario).glob("*")}


def _study_media(name: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as place, chdir(place):
        load(STORED_STUDIES / f"{name}.json", StudyFolder(STUDIES / name))
        answer = find_study(name)
        csv = Path("trials.csv")
        write_trials_csv(answer.trials, csv)
        notes, page = trial_notes(answer), _STYLE.sub("", report_html(answer, []))
        return {
            **_at_each_width(print_summary, answer),
            "terminal-all.txt": printed(print_summary, answer, whole=True),
            "answer.json": _lines_of_json(answer.to_json()),
            "trials.csv": csv.read_text(encoding="utf-8"),
            "page.html": page,
            "notebook.html": _beside(page, _STYLE.sub("", notebook_html(answer))),
            "notes.md": "\n\n".join(
                [study_note(answer), *(notes[trial] for trial in sorted(notes))]
            ),
            "exports.txt": _exports(answer),
        }


def _beside(page: str, notebook: str) -> str:
    """What a notebook shows that the page does not; of the same lines their number."""
    lines, others = notebook.splitlines(), page.splitlines()
    found = list[str]()
    for kind, _, _, begin, end in SequenceMatcher(None, others, lines, False).get_opcodes():
        is_same = kind == "equal" and end - begin > 2
        found += [f"[{end - begin} lines of the page]"] if is_same else lines[begin:end]
    return "\n".join([*found, ""])


def _exports(answer: StudyAnswer) -> str:
    if answer.best is None:
        return ""
    return "\n".join(exported(answer, form) for form in ("json", "toml", "python"))


def _trace_media(name: str) -> dict[str, str]:
    with chdir(STORED_TRACES):
        place = Path(name)
        files = sorted(place.iterdir()) if place.is_dir() else [place]
        analysis = Analysis.of(read_traces(files), finds_changes=True)
    return {
        **_at_each_width(print_trace, analysis, Shown()),
        "terminal-all.txt": printed(print_trace, analysis, Shown(whole=True, row_limit=12)),
        "analysis.json": _lines_of_json(analysis.to_json()),
    }


def _at_each_width(show: Callable[..., None], *what: object) -> dict[str, str]:
    return {f"terminal-{width}.txt": printed(show, *what, width=width) for width in (80, 120)}


def _lines_of_json(document: dict[str, Any]) -> str:
    return json.dumps(json.loads(json_of(document)), ensure_ascii=False, indent=1) + "\n"


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.9g}"
