"""`python -m tuner.analyze`: tables, a diagnosis and a timeline of existing traces."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from tuner.command_line import WholeOption, new_app, print_json, stdout_console
from tuner.errors import UsageError
from tuner.flags import pairs_of, say
from tuner.text import did_you_mean

if TYPE_CHECKING:
    from tuner.present.analysis import Analysis
    from tuner.present.trace_summary import Shown
    from tuner.present.what_if import Asked

NoTimelineOption = Annotated[bool, typer.Option("--no-timeline", help="Draw no picture.")]
RowLimitOption = Annotated[int, typer.Option(min=0, metavar="N", help="The most rows of a table of "
    "--all or --table; 0 for all.")]  # fmt: skip
TableOption = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Print this table "
    "alone; repeatable: calls, parts (of a call's time), recipe, operators, path, threads, "
    "changes.",
)]  # fmt: skip
FEW_ROWS = 10
"""The default of `--row-limit`; a table begins with its largest rows."""
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, with every row.")
]

WhatIfOption = Annotated[list[str] | None, typer.Option(
    metavar="[ROLE.]KNOB=VALUES", help="Forecast what other values would do: "
    "num_worker_threads=1,2,4, or cpus=64; or changes of the program: FUNCTION=together, one-call, "
    "faster:2, bytes:2 or batch:8, driver=no-sleep, callers=4, servers=2, gil=no, lock=no; "
    "repeatable.",
)]  # fmt: skip

app, main = new_app("analyze")


@app.command(
    epilog="Reads the traces of rpc-tuner, of torch.profiler (Kineto) and of the legacy profiler, "
    "compressed with gzip or not. Exit codes: 0 answered, 1 internal error, 2 bad usage or bad "
    "input."
)
def analyze(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE", show_default=False,
        help="A trace; for torch.profiler one per rank of a run.")],
    timeline: Annotated[Path | None, typer.Option(metavar="FILE", help="The picture, .png or .svg. "
        "Default: TRACE.timeline.png in the current folder.")] = None,
    no_timeline: NoTimelineOption = False,
    whole: WholeOption = False,
    table: TableOption = None,
    row_limit: RowLimitOption = FEW_ROWS,
    what_if: WhatIfOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Show what happened in the calls of a trace: a diagnosis, tables, and a timeline."""
    here = Path(traces[0].name)
    output = TraceOutput.asked(
        here, timeline, no_timeline, whole, table or [], row_limit, what_if or [], as_json
    )
    # Late: --help and a mistyped flag must not wait for pandas.
    from tuner.present.analysis import Analysis
    from tuner.trace.files.reader import read_traces

    more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
    trace = read_traces(traces, _tell_of_waiting)
    output.show(Analysis.of(trace, asked=output.what_if, finds_changes=True), f"{here}{more}")


def _tell_of_waiting(fifo: Path) -> None:
    say(f"note: {fifo} is a FIFO: waiting for a program that writes to it", file=sys.stderr)


@dataclass(frozen=True)
class TraceOutput:
    """What the flags of a command ask to show of a trace, and how."""

    picture: Path | None
    must_draw: bool
    shown: "Shown"
    what_if: "Sequence[Asked]"
    as_json: bool

    @classmethod
    def asked(
        cls,
        trace: Path,
        timeline: Path | None,
        no_timeline: bool,
        whole: bool,
        tables: Sequence[str],
        row_limit: int,
        what_if: list[str],
        as_json: bool,
    ) -> Self:
        """By the flags; without `timeline` the picture is beside `trace`. UsageError if wrong."""
        # Late: --help must not wait for pandas.
        from tuner.present.trace_summary import Shown
        from tuner.present.trace_tables import TABLES

        if timeline is not None and no_timeline:
            raise UsageError("--timeline and --no-timeline exclude each other")
        if timeline is not None and timeline.suffix not in (".png", ".svg"):
            raise UsageError(f"--timeline takes a file that ends in .png or .svg, got {timeline}")
        for table in tables:
            if table not in TABLES:
                raise UsageError(
                    f"--table: there is no table {table!r}{did_you_mean(table, TABLES)}"
                )
        named = [name for table in tables for name in TABLES if name == table]
        shown = Shown(whole=whole, tables=named, row_limit=row_limit or None)
        name = trace.name.removesuffix(".gz").removesuffix(".json") + ".timeline.png"
        picture = None if no_timeline else timeline or trace.parent / name
        asked: list[Asked] = []
        if what_if:
            from tuner.present.what_if import read_flags, words_of

            asked = read_flags([pairs_of("--what-if", words_of(each)) for each in what_if])
        return cls(picture, timeline is not None, shown, asked, as_json)

    def show(
        self,
        analysis: "Analysis",
        title: str,
        *,
        searches: Sequence[str] = (),
        more: Mapping[str, object] | None = None,
        files: Sequence[str] = (),
    ) -> None:
        """Draw the timeline of a trace to a file, and print what it tells, or a JSON document.

        `searches` are the commands that try what the diagnosis suggests, where they are known;
        `more` is what else goes into the document, and `files` what is said of other files, a line
        each. UsageError, once all else was printed, if the picture was not drawn though it must be.
        """
        problem = self._draw(analysis, title)
        picture = None if problem else self.picture
        if self.as_json:
            print_json({**analysis.to_json(), **(more or {}), "timeline": picture and str(picture)})
        else:
            from tuner.present.trace_summary import print_trace

            drawn = [f"Timeline: {picture}"] if picture else []
            if picture and "changes" in self.shown.tables and analysis.changes:
                drawn.append(f"Changes: {_draw_changes(analysis, picture)}")
            print_trace(analysis, stdout_console(), self.shown, searches, [*drawn, *files])
        # The tables were printed; a picture that nobody asked for is no reason to fail.
        if problem and self.must_draw:
            raise problem
        if problem:
            say(f"note: {problem}", file=sys.stderr)

    def _draw(self, analysis: "Analysis", title: str) -> UsageError | None:
        """Draw the picture, if there is to be one; returns why it could not be drawn."""
        if self.picture is None:
            return None
        # Late: without a picture nobody need wait for matplotlib.
        from tuner.present.figures import write_timeline_figure

        try:
            write_timeline_figure([(title, analysis.trace)], self.picture)
        except OSError as error:
            return UsageError(f"cannot write the timeline {self.picture}: {error.strerror}")
        except UsageError as error:
            return error
        return None


def _draw_changes(analysis: "Analysis", timeline: Path) -> Path:
    """Draw the changes beside the timeline; returns the picture's path."""
    from tuner.present.figures import write_changes_figure

    picture = timeline.with_name(f"{timeline.stem.removesuffix('.timeline')}.changes.png")
    write_changes_figure(analysis.changes, analysis.callers, picture)
    return picture


if __name__ == "__main__":
    sys.exit(main())
