"""`python -m tuner.export`: the recommended configuration, in a format that a program loads."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.command_line import (
    STUDY,
    FolderOption,
    StorageOption,
    check_study,
    new_app,
    one_of,
    write_text,
)
from tuner.errors import UsageError
from tuner.text import listed

_BY_SUFFIX = {".json": "json", ".toml": "toml", ".py": "python"}
_FORMATS = tuple(_BY_SUFFIX.values())

app, main = new_app("export")


@app.command(
    epilog="tuner.load_rpc_options(FILE, role=ROLE) loads json and toml; python is a module that "
    "needs no rpc-tuner. Exit codes: 0 exported, 1 internal error, 2 bad usage, or nothing to "
    "export."
)
def export(
    study: Annotated[str, STUDY],
    form: Annotated[str, typer.Option("--format", metavar="|".join(_FORMATS),
        autocompletion=one_of(_FORMATS), help="What to write.")] = "json",
    trial: Annotated[int | None, typer.Option(min=0, metavar="N", help="Another configuration than "
        "the recommended one: N is in the column trial of trials.csv.")] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write it. Default: "
        "standard output.")] = None,
    storage: StorageOption = None,
    out: FolderOption = None,
) -> None:  # fmt: skip
    """Write what a study recommends for init_rpc, as JSON, TOML or Python."""
    if form not in _FORMATS:
        raise UsageError(f"--format must be {listed(_FORMATS, 'or')}, got {form!r}")
    if output is not None and _BY_SUFFIX.get(output.suffix, form) != form:
        raise UsageError(f"--output {output} is a file of another format than {form}")
    content = _content(study, form, trial, storage, out)
    if output is None:
        sys.stdout.write(content)
    else:
        write_text(output, content)


def _content(
    study: str, form: str, trial: int | None, storage: str | None, out: Path | None
) -> str:
    """The configuration, which `answer.json` may have."""
    check_study(study, storage, out)
    # Late: --help and what is mistyped must not wait for rich, and a kept answer not for Optuna.
    from tuner.present.study_files import find_kept_answer

    kept = find_kept_answer(study, out) if storage is None and trial is None else None
    if kept is not None and form in kept.exports:
        return kept.exports[form]
    from tuner.present.how_to_use import exported
    from tuner.study.stored import find_study

    return exported(find_study(study, storage=storage, out=out), form, trial)


if __name__ == "__main__":
    sys.exit(main())
