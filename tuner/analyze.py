"""`python -m tuner.analyze`: tables, a diagnosis and a timeline of existing traces."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.command_line import WholeOption, new_app, print_json, stdout_console
from tuner.errors import UsageError
from tuner.flags import say
from tuner.text import did_you_mean

if TYPE_CHECKING:
    from tuner.present.analysis import Analysis
    from tuner.present.trace_summary import Shown

TracesArgument = Annotated[list[Path], typer.Argument(
    metavar="TRACE", show_default=False, help="A trace; for torch.profiler one per rank of a run.",
)]  # fmt: skip
TimelineOption = Annotated[Path | None, typer.Option(
    metavar="FILE",
    help="The picture, .png or .svg. Default: TRACE.timeline.png in the current folder.",
)]  # fmt: skip
NoTimelineOption = Annotated[bool, typer.Option("--no-timeline", help="Draw no picture.")]
RowLimitOption = Annotated[
    int, typer.Option(min=0, metavar="N", help="The most rows of a table of --all or --table; 0 "
        "for all.")
]  # fmt: skip
TableOption = Annotated[list[str] | None, typer.Option(
    metavar="NAME", help="Print this table alone; repeatable: calls, parts (of a call's time), "
    "recipe, operators, path, threads.",
)]  # fmt: skip
FEW_ROWS = 10
"""The default of `--row-limit`; a table begins with its largest rows."""
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, with every row.")
]

app, main = new_app("analyze")
EPILOG = (
    "Reads the traces of rpc-tuner, of torch.profiler (Kineto) and of the legacy profiler, "
    "compressed with gzip or not. Exit codes: 0 answered, 1 internal error, 2 bad usage or bad "
    "input."
)


@app.command(epilog=EPILOG)
def analyze(
    traces: TracesArgument,
    timeline: TimelineOption = None,
    no_timeline: NoTimelineOption = False,
    whole: WholeOption = False,
    table: TableOption = None,
    row_limit: RowLimitOption = FEW_ROWS,
    as_json: JsonOption = False,
) -> None:
    """Show what happened in the calls of a trace: a diagnosis, tables, and a timeline."""
    check_timeline(timeline, no_timeline)
    shown = what_to_show(whole, table, row_limit)
    # Late: --help and a mistyped flag must not wait for pandas.
    from tuner.present.analysis import Analysis
    from tuner.trace.files.reader import read_traces

    analysis = Analysis.of(read_traces(traces))
    more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
    show(
        analysis,
        title=f"{traces[0].name}{more}",
        picture=None if no_timeline else timeline or Path(timeline_name(traces[0])),
        must_draw=timeline is not None,
        shown=shown,
        as_json=as_json,
    )


def what_to_show(whole: bool, tables: list[str] | None, row_limit: int) -> "Shown":
    """What the flags ask for; UsageError for a table that there is not."""
    # Late: --help must not wait for pandas.
    from tuner.present.trace_summary import TABLES, Shown

    named = [name for each in tables or [] for name in TABLES if name == each]
    for each in tables or []:
        if each not in TABLES:
            raise UsageError(f"--table: there is no table {each!r}{did_you_mean(each, TABLES)}")
    return Shown(whole=whole, tables=named, row_limit=row_limit or None)


def check_timeline(timeline: Path | None, no_timeline: bool) -> None:
    """UsageError if these two flags, or the file's suffix, make no sense."""
    if timeline is not None and no_timeline:
        raise UsageError("--timeline and --no-timeline exclude each other")
    if timeline is not None and timeline.suffix not in (".png", ".svg"):
        raise UsageError(f"--timeline takes a file that ends in .png or .svg, got {timeline}")


def timeline_name(trace: Path) -> str:
    """The file's name of the picture of a trace."""
    return trace.name.removesuffix(".gz").removesuffix(".json") + ".timeline.png"


def show(
    analysis: "Analysis",
    *,
    title: str,
    picture: Path | None,
    must_draw: bool,
    shown: "Shown",
    as_json: bool,
    searches: Sequence[str] = (),
    more: Mapping[str, object] | None = None,
    files: Sequence[str] = (),
) -> None:
    """Draw the timeline of a trace to a file, and print what it tells, or a JSON document.

    `searches` are the commands that try what the diagnosis suggests, where they are known; `more`
    is what else goes into the document, and `files` what is said of other files, a line each.
    UsageError, once all else was printed, if the picture was not drawn though it must be.
    """
    from tuner.present.trace_summary import print_trace

    problem = None
    if picture is not None:
        # Late: without a picture nobody need wait for matplotlib.
        from tuner.present.figures import write_timeline_figure

        try:
            write_timeline_figure(analysis.trace, picture, title=title)
        except OSError as error:
            problem = UsageError(f"cannot write the timeline {picture}: {error.strerror}")
        except UsageError as error:
            problem = error
    if problem is not None:
        picture = None
    if as_json:
        path = None if picture is None else str(picture)
        print_json({**analysis.to_json(), **(more or {}), "timeline": path})
    else:
        drawn = [] if picture is None else [f"Timeline: {picture}"]
        print_trace(analysis, stdout_console(), shown, searches, [*drawn, *files])
    if problem is not None:
        # The tables were printed; a picture that nobody asked for is no reason to fail.
        if must_draw:
            raise problem
        say(f"note: {problem}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
