"""`python -m tuner.list`: the studies that are there, with their verdicts."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.command_line import JsonOption, StorageOption, new_app, print_json, stdout_console
from tuner.errors import UsageError
from tuner.flags import say

app, main = new_app("list")


@app.command(
    epilog="show STUDY prints the whole answer of one. Exit codes: 0 listed, 1 internal error, 2 "
    "bad usage or bad input."
)
def list_studies(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", show_default=False, help="Where "
        "the studies are. Default: studies.")] = None,
    storage: StorageOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """List the studies of a folder, or of an Optuna storage."""
    if folder is not None and storage is not None:
        raise UsageError("name a folder or a --storage, not both")
    # Late: --help and a mistyped flag must not wait for Optuna and pandas.
    from tuner.present.study_list import print_studies, studies_of_folder, studies_of_storage
    from tuner.study.folder import STUDIES

    found = studies_of_storage(storage) if storage else studies_of_folder(folder or STUDIES)
    if as_json:
        print_json(found.to_json())
        return
    for problem in found.problems:
        say(f"note: left out: {problem}", file=sys.stderr)
    if found.studies:
        print_studies(found.studies, stdout_console())
    else:
        say("no studies")


if __name__ == "__main__":
    sys.exit(main())
