"""What all commands share: how they end, how they are interrupted, how they write JSON."""

import errno
import math
import signal
import sys
import time
from collections.abc import Callable, Iterable
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tuner.errors import TunerError, UsageError, telling_what_is_missing
from tuner.files import written_atomically
from tuner.flags import (
    cannot_print,
    forgotten_dashes,
    let_go_of_pipes,
    misplaced_flags,
    print_version,
    say,
    split_at_dashes,
)
from tuner.text import ALIKE, STARTING, shortened

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

    from tuner.present.terminal import Terminal
    from tuner.searching.progress_reports import Observer, Snapshot, Stage


_UNREADABLE = (errno.ENAMETOOLONG, errno.EACCES, errno.ELOOP)

# Ctrl-C that is held down, or pressed again at once, is one.
BURST_S = 2.0


def one_of(names: Iterable[str] | Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completes to one of these names, or of those that there are then: --help need not know."""

    def complete(incomplete: str) -> list[str]:
        known = names() if callable(names) else names
        return [name for name in known if name.startswith(incomplete)]

    return complete


def _studies() -> Iterable[str]:
    from tuner.study.folder import STUDIES, studies_in

    return (folder.name for folder in studies_in(STUDIES))


# What several commands take.
a_study = one_of(_studies)
STUDY = typer.Argument(metavar="STUDY", show_default=False, autocompletion=a_study,
    help="A study's name, or the path of its folder.")  # fmt: skip
StorageOption = Annotated[str | None, typer.Option("--storage", metavar="URL", help="The Optuna "
    "storage that the study was searched with.")]  # fmt: skip
FolderOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The study's "
    "folder, where it is not studies/STUDY.")]  # fmt: skip
WHOLE = typer.Option("--all", help="All there is to say, not one screen of it.")
WholeOption = Annotated[bool, WHOLE]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def check_study(study: str, storage: str | None = None, out: Path | None = None) -> None:
    """UsageError if a study is not in its folder, before anybody waits for Optuna and pandas."""
    if storage is None and out is None:
        from tuner.study.folder import known_folder

        known_folder(study)


class _Command(TyperCommand):
    """A command that names the nearest flag for one that is mistyped, and that one alone."""

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """The options, in the groups that they name; of others there is one, the last."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if (record := each.get_help_record(ctx)) is not None:
                usual = "Arguments" if each.param_type_name == "argument" else "Options"
                group = getattr(each, "rich_help_panel", None) or usual
                groups.setdefault(group, []).append(record)
        for title, records in sorted(groups.items(), key=lambda item: item[0] == "Options"):
            with formatter.section(title):
                formatter.write_dl(records)

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        if args == ["--version"]:
            print_version()
            ctx.exit()
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if nearest := getattr(error, "possibilities", None):
                error.message += f"; did you mean {nearest[0]}?"  # type: ignore[attr-defined]
                error.possibilities = None  # type: ignore[attr-defined]
            elif "extra argument" in str(error) and (workload := self._workload_of(given)):
                error.message += f"; did you mean --workload {workload}?"  # type: ignore[attr-defined]
            raise

    def _workload_of(self, given: list[str]) -> str:
        """The shipped workload that is named without its flag, if this command takes any."""
        if not any("--workload" in each.opts for each in self.params):
            return ""
        from workloads.registry import SHIPPED

        return next((word for word in given if word in SHIPPED), "")


class _App(typer.Typer):
    def command(self, *arguments: Any, **how: Any) -> Callable[[Any], Any]:
        return super().command(*arguments, **{"cls": _Command, **how})


def new_app(name: str, *, takes_program: bool = False) -> tuple[typer.Typer, Callable[..., int]]:
    """An app for a command, and what runs it as `python -m tuner.NAME`: see `run`."""
    app = _App(add_completion=False, rich_markup_mode=None)

    def main(arguments: list[str] | None = None) -> int:
        return run(app, arguments, f"python -m tuner.{name}", takes_program=takes_program)

    return app, main


def run(
    app: typer.Typer, arguments: list[str] | None, program: str, *, takes_program: bool = False
) -> int:
    """Run a command, which `--help` calls `program`; returns the exit code, says errors on stderr.

    Where it `takes_program`, what stands behind `--` is for `told_program`.
    """
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(app, given, program, takes_program=takes_program)
    except BrokenPipeError:
        return let_go_of_pipes()
    except OSError as error:
        return cannot_print(error)


def _run(app: typer.Typer, given: list[str], program: str, *, takes_program: bool) -> int:
    """See `run`; OSError where what is printed, or why the command failed, goes nowhere."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=ALIKE)
    own, behind = split_at_dashes(given) if takes_program else (given, [])
    try:
        with telling_what_is_missing():
            app(args=own, prog_name=program, help_option_names=["--help", "-h"], obj=behind)
        sys.stdout.flush()
    except SystemExit as end:
        # Typer makes one of it.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        if takes_program and end.code == 2 and (hint := forgotten_dashes(given)):
            say(f"rpc-tuner: {hint}", file=sys.stderr)
        return end.code if isinstance(end.code, int) else 1
    except TunerError as error:
        say(f"rpc-tuner: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # a broken pipe, or a full disk behind stdout, among them
        if error.errno not in _UNREADABLE or not error.filename:
            raise
        # A study is for its owner only; and a mistyped flag may be taken for a path.
        where = shortened(str(error.filename), 200)
        say(f"rpc-tuner: cannot read {where}: {error.strerror}", file=sys.stderr)
        return UsageError.exit_code
    except RuntimeError as error:
        # So says `Path.resolve` before Python 3.13.
        if not str(error).startswith("Symlink loop"):
            raise
        say(f"rpc-tuner: {error}", file=sys.stderr)
        return UsageError.exit_code
    return 0


def told_program(context: typer.Context) -> list[str]:
    """What stands behind `--`; a person is told of flags there that may be meant for us."""
    program: list[str] = context.obj or []
    ours = [flag for each in context.command.params for flag in each.opts]
    if hint := misplaced_flags(program, ours):
        say(f"rpc-tuner: {hint}", file=sys.stderr)
    return program


def stdout_console() -> "Terminal":
    """As wide as COLUMNS says, else as the terminal of stdin, stdout or stderr, else 80 columns."""
    # Late: --help and a mistyped flag do not need it.
    from tuner.present.terminal import Terminal

    return Terminal()


def say_starting(*, quiet: bool) -> None:
    """Say on a terminal that something happens, before the packages are there that draw more."""
    if not quiet and sys.stderr.isatty():
        sys.stderr.write(f"{STARTING}\r")
        sys.stderr.flush()


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout; numpy's numbers and arrays too."""
    from tuner.json_text import visible_json

    sys.stdout.buffer.write(visible_json(document, is_indented=True) + b"\n")
    sys.stdout.flush()


def write_text(path: Path, text: str) -> None:
    """Write a whole file, or none; UsageError if that is not possible."""
    try:
        with written_atomically(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


class Interruption:
    """Signals that ask a command to end: each raises KeyboardInterrupt, and is also remembered.

    They are Ctrl-C, SIGTERM, SIGQUIT, and SIGHUP unless `nohup` has it ignored. Python drops the
    exception where it happens to be running a destructor or a callback of the garbage collector:
    a search would go on, and a traceback would be printed. What follows within BURST_S seconds is
    part of the first one: it must not cut short what is done to keep what was measured.
    """

    def __init__(self) -> None:
        self._is_asked_for = False
        self._asked_s = -math.inf
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
            if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._ask)
        self._tell_of_others = sys.unraisablehook
        sys.unraisablehook = self._dropped

    def check(self) -> None:
        """KeyboardInterrupt if a signal has come."""
        if self._is_asked_for:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_asked_for = True
        if time.monotonic() - self._asked_s > BURST_S:
            self._asked_s = time.monotonic()
            raise KeyboardInterrupt

    def _dropped(self, dropped: "sys.UnraisableHookArgs") -> None:
        """Say nothing of an interruption that is remembered, and all of anything else."""
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._tell_of_others(dropped)


class Interruptible:
    """An observer that passes everything on, and ends the search once it was interrupted."""

    def __init__(self, observer: "Observer", interruption: Interruption) -> None:
        self._observer = observer
        self._interruption = interruption

    def on_snapshot(self, snapshot: "Snapshot") -> None:
        """Pass it on; KeyboardInterrupt if a signal has come, or nobody reads what is told."""
        self._interruption.check()
        self._report(self._observer.on_snapshot, snapshot)

    def on_event(self, message: str) -> None:
        """See `on_snapshot`."""
        self._report(self._observer.on_event, message)

    def on_stage(self, stage: "Stage") -> None:
        """See `on_snapshot`."""
        from tuner.searching.progress_reports import report_stage

        self._report(report_stage, self._observer, stage)

    def _report(self, report: Callable[..., None], *what: object) -> None:
        try:
            report(*what)
        except BrokenPipeError:
            raise KeyboardInterrupt from None
