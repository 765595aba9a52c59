"""`python -m tuner.init`: write a workload, a program or a plan to begin with."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tuner.command_line import new_app, one_of, write_text
from tuner.errors import UsageError
from tuner.flags import say
from tuner.text import command, did_you_mean

app, main = new_app("init")
NAMES = {"workload": "my_workload.py", "program": "my_program.py", "plan": "my_plan.toml"}
"""What there is a skeleton of, and the file's name where none is given."""
_SEARCHED = {"workload": "--workload {}:MyWorkload", "program": "-- python {}", "plan": "--plan {}"}
"""What the search takes of each."""
_SKELETONS = Path(__file__).with_name("skeletons")


@app.command(
    epilog="A file that is there is left as it is. Exit codes: 0 written, 2 bad usage or bad input."
)
def init(
    what: Annotated[str, typer.Argument(metavar="|".join(NAMES), show_default=False,
        autocompletion=one_of(NAMES), help="What to write.")],
    file: Annotated[Path | None, typer.Argument(metavar="FILE", show_default=False, help="Where to "
        "write it. Default: my_workload.py, my_program.py or my_plan.toml.")] = None,
) -> None:  # fmt: skip
    """Write a commented file that runs as it is, for your own code or values."""
    if what not in NAMES:
        raise UsageError(f"there is no skeleton of {what!r}{did_you_mean(what, list(NAMES))}")
    path = file or Path(NAMES[what])
    if path.suffix != (suffix := Path(NAMES[what]).suffix):
        raise UsageError(f"give the {what} a FILE that ends in {suffix}, not {path}")
    if path.exists():
        raise UsageError(f"{path} is there already: give another FILE, or move it away")
    text = (_SKELETONS / f"{what}.txt").read_text(encoding="utf-8").replace("{name}", str(path))
    write_text(path, text)
    say(f"Wrote {path}. It runs as it is: {command('search')} {_SEARCHED[what].format(path)}")


if __name__ == "__main__":
    sys.exit(main())
