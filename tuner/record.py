"""`python -m tuner.record`: record the calls of a program, without editing it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.analyze import (
    JsonOption,
    NoTimelineOption,
    RowLimitOption,
    TimelineOption,
    check_timeline,
    show,
    timeline_name,
)
from tuner.command_line import RoleOption, program_after_dashes, roles_of, run
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.world.command.order import RecordingOrder

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "The exit code is the program's, or 2 if that is 0 and nothing was recorded. Ctrl-C goes to "
    "the program, a second one kills it; what was recorded is shown."
)


@app.command(epilog=EPILOG)
def record(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The trace, for ui.perfetto.dev.")
    ] = Path("trace.json"),
    start_after: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Record only after this time since init_rpc."),
    ] = None,
    record_for: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="TIME",
            help="Record for this long and show it then; the program goes on. Default: to its end.",
        ),
    ] = None,
    operators: Annotated[
        bool, typer.Option("--operators", help="Record operators too, which slows the program.")
    ] = False,
    role: RoleOption = None,
    timeline: TimelineOption = None,
    no_timeline: NoTimelineOption = False,
    row_limit: RowLimitOption = 30,
    as_json: JsonOption = False,
) -> None:
    """Run a program and show what happened in its calls: tables, a diagnosis, and a timeline.

    The program is started as it is: python -m tuner.record -- python main.py
    """
    command = program_after_dashes(context)
    check_timeline(timeline, no_timeline)
    if out.is_dir():
        raise UsageError(f"--out takes a file, and {out} is a folder")
    roles, order = roles_of(role), _order(operators, start_after, record_for)
    # Late: --help and a mistyped flag must not wait for it.
    from tuner.world.command.recording import record_program

    # With --json, stdout is for the document alone; None leaves the program's where it is.
    stdout = sys.stderr if as_json else None
    problems: list[UsageError] = []

    def show_trace(document: bytes, exit_code: int | None) -> None:
        from tuner.files import written_atomically
        from tuner.present.analysis import Analysis
        from tuner.trace.files.native_reader import trace_of

        try:
            with _told_if_it_fails(out), written_atomically(out) as partial:
                partial.write_bytes(document)
            show(
                Analysis.of(trace_of(document, str(out)), roles),
                title=out.name,
                picture=None if no_timeline else timeline or out.parent / timeline_name(out),
                must_draw=timeline is not None,
                row_limit=row_limit,
                as_json=as_json,
                more={"program": command, "exit_code": exit_code, "trace": str(out)},
            )
        except UsageError as problem:
            problems.append(problem)  # the program may be running: first wait for it
        else:
            print(f"Trace: {out}, for ui.perfetto.dev", file=stdout)

    end = record_program(command, order, show_trace, roles=roles, stdout=stdout)
    for note in end.report.notes("being recorded"):
        print(f"rpc-tuner: {note}", file=sys.stderr)  # noqa: T201 - this is the terminal
    if end.why_not:
        print(f"rpc-tuner: nothing was recorded: {end.why_not}", file=sys.stderr)  # noqa: T201
    if problems:
        raise problems[0]
    raise typer.Exit(end.exit_code or (2 if end.why_not else 0))


def _order(operators: bool, start_after: str | None, record_for: str | None) -> "RecordingOrder":
    from tuner.plan.quantities import parse_duration_s
    from tuner.world.command.order import RecordingOrder

    given = {"--start-after": start_after, "--for": record_for}
    times: dict[str, float] = {}
    for flag, raw in given.items():
        try:
            times[flag] = 0.0 if raw is None else parse_duration_s(raw)
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from None
    return RecordingOrder(
        operators=operators,
        start_after_s=times["--start-after"],
        for_s=times["--for"] or None,
    )


@contextmanager
def _told_if_it_fails(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write the trace {out}: {error.strerror}") from None


def main(arguments: list[str] | None = None, program: str = "python -m tuner.record") -> int:
    """Run the command; returns the exit code and prints errors to stderr."""
    return run(app, arguments, program, takes_program=True)


if __name__ == "__main__":
    sys.exit(main())
