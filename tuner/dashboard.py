"""`python -m tuner.dashboard`: optuna-dashboard over a study, or over all studies of a folder."""

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.command_line import (
    FolderOption,
    Interruption,
    StorageOption,
    a_study,
    check_study,
    new_app,
)
from tuner.errors import UsageError
from tuner.flags import say
from tuner.text import command

if TYPE_CHECKING:
    from tuner.study.storage.browsing import Site

app, main = new_app("dashboard")


@app.command(
    epilog="The page can be opened on this machine only. Exit codes: 0 stopped by Ctrl-C or "
    "SIGTERM, 1 internal error, 2 bad usage or bad input."
)
def dashboard(
    study: Annotated[str | None, typer.Argument(metavar="STUDY", show_default=False,
        autocompletion=a_study, help="A study's name, or the path of its folder; a search that is "
        "running can be followed. Without: copies of all studies, side by side.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, metavar="N", help="0 for any free "
        "one. Default: 8080, if it is free.")] = None,
    storage: StorageOption = None,
    out: FolderOption = None,
    studies: Annotated[Path | None, typer.Option(metavar="DIR", help="Without STUDY: where the "
        "studies are. Default: studies.")] = None,
) -> None:  # fmt: skip
    """Show a study, or all studies of a folder, in a browser, by optuna-dashboard."""
    if study is None and (storage is not None or out is not None):
        raise UsageError("--storage and --out say where one study is: name the study too")
    if study is not None and studies is not None:
        raise UsageError("--studies shows all studies of a folder: give it no STUDY")
    if study is not None:
        check_study(study, storage, out)
    interruption = Interruption()
    # Optuna warns about the data of its figures; nobody can change these here.
    warnings.filterwarnings("ignore", module="optuna")
    try:
        # Late: --help and a mistyped flag must not wait for Optuna.
        from tuner.study.folder import STUDIES
        from tuner.study.storage.address import place_of
        from tuner.study.storage.browsing import serving, study_site

        if study is None:
            site, what = _all_studies(studies or STUDIES)
        else:
            place = place_of(study, storage=storage, out=out)
            site, what = study_site(place), f"The study {place.address.name}"
        with serving(site.application, port) as url:
            say(f"{what}: {url}{site.page} (Ctrl-C stops it)")
            while True:
                time.sleep(0.2)
                interruption.check()
    except KeyboardInterrupt:
        return


def _all_studies(folder: Path) -> "tuple[Site, str]":
    """Copies of the studies of a folder; a note on stderr for each that cannot be read."""
    from tuner.study.folder import studies_in
    from tuner.study.storage.address import places_in
    from tuner.study.storage.browsing import copies_site

    places, problems = [], []
    for each in studies_in(folder):
        try:
            places += places_in(each)
        except UsageError as error:
            problems.append(str(error))
    copies = copies_site(places)
    for problem in [*problems, *copies.problems]:
        say(f"note: left out: {problem}", file=sys.stderr)
    if not copies.names:
        raise UsageError(
            f"there are no studies to show in the folder {folder}; "
            f"{command('search', '--workload', 'udf')} makes one"
        )
    what = "The study" if len(copies.names) == 1 else f"{len(copies.names)} studies"
    return copies.site, f"{what} of the folder {folder}"


if __name__ == "__main__":
    sys.exit(main())
