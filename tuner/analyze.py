"""`python -m tuner.analyze`: tables, a diagnosis and a timeline of existing traces."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.command_line import print_json, run, stdout_console
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.trace.model.trace import Trace

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "Reads the traces of rpc-tuner, of torch.profiler (Kineto) and of the legacy profiler, "
    "compressed with gzip or not. Exit codes: 0 answered, 1 internal error, 2 bad usage or bad "
    "input."
)


@app.command(epilog=EPILOG)
def analyze(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE",
            show_default=False,
            help="A trace; for torch.profiler one per rank of a run.",
        ),
    ],
    timeline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The picture, .png or .svg. Default: TRACE.timeline.png in the current folder.",
        ),
    ] = None,
    no_timeline: Annotated[bool, typer.Option("--no-timeline", help="Draw no picture.")] = False,
    row_limit: Annotated[
        int, typer.Option(min=0, metavar="N", help="The most rows of a table; 0 for all.")
    ] = 30,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, with every row.")
    ] = False,
) -> None:
    """Show what happened in the calls of a trace: tables, a diagnosis, and a timeline."""
    if timeline is not None and no_timeline:
        raise UsageError("--timeline and --no-timeline exclude each other")
    if timeline is not None and timeline.suffix not in (".png", ".svg"):
        raise UsageError(f"--timeline takes a file that ends in .png or .svg, got {timeline}")
    _analyze(traces, timeline, no_timeline, row_limit, as_json)


def _analyze(
    traces: list[Path], timeline: Path | None, no_timeline: bool, row_limit: int, as_json: bool
) -> None:
    # Late: --help and a mistyped flag must not wait for pandas.
    from tuner.present.analysis import Analysis, print_analysis
    from tuner.trace.files.reader import read_traces

    analysis = Analysis.of(read_traces(traces))
    picture, problem = None, None
    if not no_timeline:
        try:
            picture = _draw(analysis.trace, traces, timeline)
        except UsageError as error:
            problem = error
    if as_json:
        print_json({**analysis.to_json(), "timeline": None if picture is None else str(picture)})
    else:
        console = stdout_console(piped_width=200)
        print_analysis(analysis, console, row_limit or None, picture)
    if problem is not None:
        # The tables were printed; a picture that nobody asked for is no reason to fail.
        if timeline is not None:
            raise problem
        print(f"note: {problem}", file=sys.stderr)  # noqa: T201 - this is the terminal


def _draw(trace: "Trace", traces: list[Path], timeline: Path | None) -> Path:
    """Draw the timeline; returns its path. UsageError if there is none, or it cannot be written."""
    # Late: without a picture nobody need wait for matplotlib.
    from tuner.present.figures import write_timeline_figure

    name = traces[0].name.removesuffix(".gz").removesuffix(".json")
    path = Path(f"{name}.timeline.png") if timeline is None else timeline
    more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
    try:
        write_timeline_figure(trace, path, title=f"{traces[0].name}{more}")
    except OSError as error:
        raise UsageError(f"cannot write the timeline {path}: {error.strerror}") from None
    return path


def main(arguments: list[str] | None = None, program: str = "python -m tuner.analyze") -> int:
    """Run the command; returns the exit code and prints errors to stderr."""
    return run(app, arguments, program)


if __name__ == "__main__":
    sys.exit(main())
