"""`python -m tuner.record`: record the calls of a program, without editing it."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.analyze import (
    FEW_ROWS,
    JsonOption,
    NoTimelineOption,
    RowLimitOption,
    TableOption,
    TraceOutput,
    WhatIfOption,
)
from tuner.command_line import WholeOption, new_app, told_program
from tuner.errors import UsageError
from tuner.flags import commands_of, pairs_of, program_of, roles_of, say
from tuner.plan_flags import BesideOption, RoleOption
from tuner.text import command, one_line

if TYPE_CHECKING:
    from tuner.plan.config import Config
    from tuner.world.command.order import RecordingOrder

app, main = new_app("record", takes_program=True)


@app.command(
    options_metavar="[OPTIONS] -- COMMAND...",
    epilog="The exit code is the program's, or 2 if that is 0 and nothing was recorded. A program "
    "that deadlocks, or in which a rank has failed and all others wait in vain, is ended, with "
    "exit code 1. Ctrl-C goes to the program, a second one kills it; what was recorded is shown.",
)
def record(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The trace, for "
        "ui.perfetto.dev.")] = Path("trace.json"),
    start_after: Annotated[str | None, typer.Option(metavar="TIME", help="Record only after this "
        "time since init_rpc.")] = None,
    record_for: Annotated[str | None, typer.Option("--for", metavar="TIME", help="Record for this "
        "long and show it then; the program goes on. Default: to its end.")] = None,
    operators: Annotated[bool, typer.Option("--operators", help="Record operators too, which slows "
        "the program.")] = False,
    config: Annotated[list[str] | None, typer.Option(metavar="[ROLE.]KNOB=VALUE", help="A knob to "
        "record the program with.")] = None,
    role: RoleOption = None,
    beside: BesideOption = None,
    timeline: Annotated[Path | None, typer.Option(metavar="FILE", help="The picture, .png or .svg. "
        "Default: TRACE.timeline.png beside the trace.")] = None,
    no_timeline: NoTimelineOption = False,
    whole: WholeOption = False,
    table: TableOption = None,
    row_limit: RowLimitOption = FEW_ROWS,
    what_if: WhatIfOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Run a program and show what happened in its calls: a diagnosis, tables, and a timeline.

    The program is started as it is: rpc-tuner record -- python main.py
    """
    commands = [program_of(told_program(context)), *commands_of(beside)]
    output = TraceOutput.asked(
        out, timeline, no_timeline, whole, table or [], row_limit, what_if or [], as_json
    )
    if out.is_dir():
        raise UsageError(f"--out takes a file, and {out} is a folder")
    roles = roles_of(role)
    # Late: --help and a mistyped flag must not wait for it.
    from tuner.plan.config import read_config
    from tuner.world.command.order import RecordingOrder
    from tuner.world.command.running import check_commands

    order = RecordingOrder(
        operators=operators,
        start_after_s=_seconds("--start-after", start_after),
        for_s=_seconds("--for", record_for) or None,
    )
    chosen = read_config(pairs_of("--config", config or []))
    check_commands(commands)
    _check_folders({"trace": out, "timeline": timeline})
    raise typer.Exit(_record(commands, order, roles, chosen, out, output))


def _check_folders(files: Mapping[str, Path | None]) -> None:
    """UsageError unless these files can be written: not after a long run only."""
    from tuner.files import check_writable

    for what, file in files.items():
        try:
            if file is not None:
                check_writable(file.parent)
        except OSError as error:
            raise _not_written(what, file, error) from None


def _not_written(what: str, file: Path | None, error: OSError) -> UsageError:
    return UsageError(f"cannot write the {what} {file}: {error.strerror}")


def _seconds(flag: str, given: str | None) -> float:
    from tuner.text import parse_duration_s

    try:
        return 0.0 if given is None else parse_duration_s(given)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _record(
    commands: list[list[str]],
    order: "RecordingOrder",
    roles: list[tuple[str, str]],
    config: "Config",
    out: Path,
    output: TraceOutput,
) -> int:
    """Run the program, write its trace and show that; returns the exit code."""
    from tuner.world.command.recording import record_program
    from tuner.world.command.reports import BESIDE

    problems: list[UsageError] = []

    def try_to_show(document: bytes, exit_code: int | None) -> None:
        try:
            _show(document, exit_code, commands, roles, out, output)
        except UsageError as problem:
            problems.append(problem)  # the program may be running: first wait for it

    program, *beside = commands
    end = record_program(
        program,
        order,
        try_to_show,
        notify=_note,
        beside=beside,
        roles=roles,
        config=config,
        stdout=sys.stderr if output.as_json else None,
    )
    notes = [n for n in end.report.notes("being recorded", BESIDE) if n not in end.why_not]
    if end.why_not:
        notes.append(f"nothing was recorded: {end.why_not}")
    elif end.exit_code and not end.is_given_up:
        notes.append(f"the program ended with exit code {end.exit_code}")
    notes += [f"PyTorch warned in its own code: {one_line(each)}" for each in end.report.warned]
    for note in notes:
        _note(note)
    if problems:
        raise problems[0]
    return end.exit_code or (2 if end.why_not else 0)


def _note(sentence: str) -> None:
    say(f"rpc-tuner: {sentence}", file=sys.stderr)


def _show(
    document: bytes,
    exit_code: int | None,
    commands: list[list[str]],
    roles: list[tuple[str, str]],
    out: Path,
    output: TraceOutput,
) -> None:
    """Write the trace, and show what it holds. UsageError if one of them is not possible."""
    from tuner.files import written_atomically
    from tuner.present.analysis import Analysis
    from tuner.trace.files.native_reader import trace_of

    problem: UsageError | None = None
    try:
        with written_atomically(out) as partial_file:
            partial_file.write_bytes(document)
    except OSError as error:
        problem = _not_written("trace", out, error)  # what it holds is shown all the same
    analysis = Analysis.of(
        trace_of(document, str(out)), roles, output.what_if,
        forecasts_unasked=True, finds_changes=True,
    )  # fmt: skip
    program, *beside = commands
    flags = [f"--role={role}={pattern}" for role, pattern in roles]
    flags += [f"--beside={shlex.join(each)}" for each in beside]
    searches = [
        command("search", "--space", each.space, *flags, "--", *program)
        for each in analysis.diagnosis.suggestions
    ]
    more = {"searches": searches, "program": program, "beside": beside, "exit_code": exit_code,
            "trace": None if problem else str(out)}  # fmt: skip
    files = [] if problem else [f"Trace: {out}, for ui.perfetto.dev"]
    output.show(analysis, out.name, searches=searches, more=more, files=files)
    if output.as_json:
        for each in files:
            say(each, file=sys.stderr)
    if problem:
        raise problem


if __name__ == "__main__":
    sys.exit(main())
