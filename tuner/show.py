"""`python -m tuner.show`: the answer of a study, as its search printed it."""

import sys
from typing import Annotated

from tuner.command_line import (
    STUDY,
    FolderOption,
    JsonOption,
    StorageOption,
    WholeOption,
    check_study,
    new_app,
    print_json,
    stdout_console,
)

app, main = new_app("show")


@app.command(
    epilog="Of a search that still runs, or was interrupted, it prints how far that is. Exit "
    "codes: 0 shown, 1 internal error, 2 bad usage or bad input."
)
def show(
    study: Annotated[str, STUDY],
    storage: StorageOption = None,
    out: FolderOption = None,
    whole: WholeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the answer of a study again, on one screen, or with --all the whole of it."""
    check_study(study, storage, out)
    # Late: --help and what is mistyped must not wait for rich, and a kept answer not for Optuna.
    from tuner.present.study_files import find_kept_answer

    kept = None if storage is not None else find_kept_answer(study, out)
    if kept is not None and as_json:
        print_json(kept.document)
        return
    if kept is not None and kept.summary is not None:
        kept.summary.print(stdout_console(), kept.folder, whole=whole)
        return
    from tuner.present.summary import print_summary
    from tuner.study.stored import find_study

    answer = find_study(study, storage=storage, out=out)
    if as_json:
        print_json(answer.to_json())
    else:
        print_summary(answer, stdout_console(), whole=whole)


if __name__ == "__main__":
    sys.exit(main())
