"""`python -m tuner.report`: the page of a study, or of several side by side."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.command_line import STUDY, FolderOption, StorageOption, check_study, new_app
from tuner.errors import UsageError
from tuner.flags import say

app, main = new_app("report")


@app.command(
    epilog="One study: its report is written again; its search may still be running. Several: the "
    "same configurations across machines, workloads or dates; studies that were measured "
    "differently are refused. Exit codes: 0 written, 1 internal error, 2 bad usage or bad input."
)
def report(
    studies: Annotated[list[str], STUDY],
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="The page. Default: "
        "report.html in the study's folder; for several studies comparison.html in the current "
        "folder. PNG and SVG figures go to a folder beside it.")] = None,
    storage: StorageOption = None,
    out: FolderOption = None,
) -> None:  # fmt: skip
    """Write a page of a study, or of several side by side, for a browser."""
    if output is not None and output.suffix != ".html":
        raise UsageError(f"--output takes a file that ends in .html, got {output}")
    if out is not None and len(studies) > 1:
        raise UsageError("--out goes with one study; several are named by their folders")
    if len(set(studies)) < len(studies):
        raise UsageError("a study is named twice; name each study once")
    for study in studies:
        check_study(study, storage, out)
    # Late: --help and what is mistyped must not wait for pandas and matplotlib.
    from tuner.present.study_files import write_comparison, write_study_report
    from tuner.study.stored import find_study

    answers = [find_study(study, storage=storage, out=out) for study in studies]
    try:
        if len(answers) > 1:
            say(write_comparison(answers, output or Path("comparison.html")))
        else:
            say(write_study_report(answers[0], output))
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
