"""Where the files of a study are, as a person sees it from the current folder."""

import os
from pathlib import Path

from tuner.study.folder import StudyFolder


def files_line(folder: StudyFolder) -> str:
    """Where the report is, and the names of the other files of the study."""
    near = os.path.relpath(folder.root)
    root = folder.root.resolve() if near.startswith("..") else Path(near)
    others = (
        folder.recommended,
        folder.trials_csv,
        folder.figures,
        folder.traces,
        folder.failures,
        folder.database,
    )
    names = ", ".join(path.name for path in others if path.exists())
    report = f"Report: {root / folder.report.name}\n" if folder.report.exists() else ""
    return f"{report}In {root}: {names}"
