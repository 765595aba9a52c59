"""`python -m tuner.search`: find the best RPC configuration for a workload or a program."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tuner.command_line import (
    WHOLE,
    Interruptible,
    Interruption,
    a_study,
    check_study,
    new_app,
    print_json,
    say_starting,
    stdout_console,
    told_program,
)
from tuner.errors import InterruptedSearchError, NothingRanError, UsageError
from tuner.plan.keys import PLAN_KEYS
from tuner.plan_flags import STUDY_GROUP, WHAT_GROUP, read_flags, with_plan_keys
from tuner.text import listed

if TYPE_CHECKING:
    from tuner.plan.draft import PlanDraft
    from tuner.present.study_result import StudyResult
    from tuner.searching.progress_reports import Observer
    from tuner.world.launcher import Launcher

app, main = new_app("search", takes_program=True)

_IN_CHECK = tuple(name for name, key in PLAN_KEYS.items() if key.in_check)
"""The keys of a plan that say how and where to check."""

_INSTEAD = "Instead of a search"
_OWN: dict[str, tuple[Any, Any]] = {
    "plan": (Path | None, typer.Option(help="A study plan (TOML).",
        rich_help_panel=WHAT_GROUP)),
    "show_output": (bool, typer.Option("--show-output", help="Show what the program prints, on "
        "stderr.")),
    "resume": (bool, typer.Option("--resume", help="Continue a study that was interrupted, or with "
        "a larger --budget one that is finished. --study NAME is enough to say which.",
        rich_help_panel=STUDY_GROUP)),
    "overwrite": (bool, typer.Option("--overwrite", help="Delete a study of this name first, with "
        "the files that it made.", rich_help_panel=STUDY_GROUP)),
    "dry_run": (bool, typer.Option("--dry-run", help="Run the baseline a few times, and say what "
        "the budget can be expected to show.", rich_help_panel=_INSTEAD)),
    "check": (str | None, typer.Option(metavar="STUDY", autocompletion=a_study, help="Measure an "
        "earlier recommendation against its baseline, here and now: that of a study, or of a "
        f"recommended.json. Goes with {', '.join(PLAN_KEYS[name].flag for name in _IN_CHECK)}, "
        "--show-output, --quiet, --log and --json.", rich_help_panel=_INSTEAD)),
    "list_workloads": (bool, typer.Option("--list-workloads", help="Show the shipped workloads, "
        "roles and options.", rich_help_panel=_INSTEAD)),
    "as_json": (bool, typer.Option("--json", help="One JSON document on stdout, progress on "
        "stderr.")),
    "quiet": (bool, typer.Option("--quiet", help="No progress, and of the answer the verdict "
        "alone.")),
    "whole": (bool, WHOLE),
    "log": (Path | None, typer.Option(metavar="FILE", help="Add the progress to a file, each line "
        "with its time.")),
}  # fmt: skip
"""The flags that are no keys of a plan."""


@app.command(
    options_metavar="[OPTIONS] [-- COMMAND...]",
    epilog="Values: num_worker_threads=1,2,4 lists; 1..6 is every number, 1..32:x2 the powers of "
    "two; transports=shm,uv,shm+uv are three lists of transports. Exit codes: 0 answered, 1 "
    "internal error, 2 bad usage or bad input, 3 no configuration could run or keeps the limits, "
    "4 a recommendation no longer holds (--check), 130 interrupted.",
)
@with_plan_keys(_OWN)
def search(context: typer.Context, **keys: Any) -> None:
    """Find the best torch.distributed.rpc configuration, on this machine.

    For a workload, or for a program that nobody edits: rpc-tuner search -- python main.py
    """
    own = {name: keys.pop(name) for name in _OWN}
    show = _show if own["show_output"] else None
    if own["list_workloads"]:
        _list_workloads(own["as_json"])
        return
    if own["check"] is not None:
        raise typer.Exit(_check(context, own["check"], show))
    asked = {"program": told_program(context) or None, "plan": own["plan"], **read_flags(keys)}
    asked |= {"beside": asked.pop("programs", []), "show": show}
    if own["dry_run"] and own["resume"]:
        _dry_run_of_resuming(own["as_json"], **asked)
    elif own["dry_run"]:
        _dry_run(own["as_json"], **asked)
    else:
        asked |= {name: own[name] for name in ("resume", "overwrite")}
        _answer(**{name: own[name] for name in ("as_json", "quiet", "whole", "log")}, **asked)


def _refuse_typos(asked: Mapping[str, Any]) -> None:
    """UsageError, at once, for what is wrong whatever the workload or the program is."""
    from tuner.world.shipped import mistakes_of

    draft = _asked_draft(asked)
    if mistakes := mistakes_of(draft):
        if draft.workload and not draft.problems:
            raise UsageError.about(f"workload {draft.workload}", mistakes)
        raise UsageError.of_request(mistakes)
    if not (asked.get("resume") or asked.get("overwrite") or draft.storage):
        _refuse_a_second(draft)


def _refuse_a_second(draft: "PlanDraft") -> None:
    """UsageError if a study of this name is there already, and is whole."""
    from tuner.study.folder import STUDIES, StudyFolder, is_there_already, names_in

    name, usual = draft.study_name, STUDIES / draft.study_name
    folder = StudyFolder(usual if draft.out is None else Path(draft.out))
    if folder.answer.exists() and name in (names_in(folder.database) or ()):
        raise UsageError(is_there_already(name, folder.root, is_usual=folder.root == usual))


def _asked_draft(asked: Mapping[str, Any]) -> "PlanDraft":
    from tuner.study.resuming import asked_or_resumed_draft

    return asked_or_resumed_draft(asked, resume=asked.get("resume", False))


def _dry_run(as_json: bool, **asked: Any) -> None:
    """Say what a search for what is asked would do."""
    _refuse_typos(asked)
    from tuner.api import dry_run
    from tuner.present.before_search import dry_run_lines

    found, plan = dry_run(**asked)
    if as_json:
        print_json(found.to_json())
        return
    _print_lines(dry_run_lines(found, plan.measuring.epsilon))


def _dry_run_of_resuming(as_json: bool, **asked: Any) -> None:
    """Say what is known of a study, and how long it would go on; nothing is run."""
    from tuner.present.how_to_use import continuing
    from tuner.present.wording import verdict_sentence
    from tuner.study.stored import find_study

    draft = _asked_draft({**asked, "resume": True})
    answer = find_study(draft.study_name, storage=draft.storage, out=draft.out)
    more = continuing(answer)
    if as_json:
        resume = {"resume_budget_s": answer.resume_budget_s, "command": more and more.text}
        print_json({**answer.to_json(), **resume})
        return
    go_on = f"To go on: {more.text}" if more else "There is nothing to go on with."
    _print_lines([verdict_sentence(answer), go_on])


def _answer(as_json: bool, *, quiet: bool, whole: bool, log: Path | None, **asked: Any) -> None:
    """Search for what is asked, in the words of `tuner.tune`, and print the answer."""
    _refuse_typos(asked)
    say_starting(quiet=quiet)
    interruption = Interruption()
    try:
        result = _tuned(interruption, quiet=quiet, log=log, **asked)
    except KeyboardInterrupt:
        raise InterruptedSearchError("interrupted before anything was measured") from None
    from tuner.present.failures_told import why_nothing_ran
    from tuner.present.summary import print_summary, print_verdict

    if as_json:
        print_json(result.to_json())
    elif quiet:
        print_verdict(result, stdout_console())
    else:
        print_summary(result, stdout_console(), whole=whole)
    if result.best is None and result.verdict is None:
        raise NothingRanError(why_nothing_ran(result))
    if result.none_feasible:
        raise NothingRanError("no configuration of the search space keeps the limits of --require")


def _tuned(
    interruption: Interruption, *, quiet: bool, log: Path | None, **asked: Any
) -> "StudyResult":
    """What `tuner.tune` returns; a program's packages are imported while ours are."""
    observers: list[Observer] = []
    with _begun(lambda said: observers[0].on_event(said), asked) as launcher:
        # Late: --help and what is mistyped must not wait for Optuna, pandas and matplotlib.
        from tuner.api import SearchInterrupted, tune
        from tuner.present.progress_display import progress_of_command
        from tuner.present.summary import print_interruption
        from tuner.present.terminal import Terminal

        try:
            with progress_of_command(quiet=quiet, log=log) as progress:
                observers.append(Interruptible(progress, interruption))
                return tune(observer=observers[0], **{**asked, **launcher})
        except SearchInterrupted as ending:
            print_interruption(ending.result, Terminal(stderr=True))
            raise


@contextmanager
def _begun(
    notify: Callable[[str], None], asked: Mapping[str, Any]
) -> Iterator[dict[str, "Launcher"]]:
    """The launcher of a program on this machine, which has begun; nothing of another search."""
    draft = _asked_draft(asked)
    if draft.program is None or draft.launching.launcher != "local" or asked.get("resume"):
        yield {}
        return
    from tuner.world.command.program_launcher import ProgramLauncher
    from tuner.world.launchers import launcher_for

    launcher = launcher_for(draft, notify=notify, show=asked["show"])
    with launcher:
        if isinstance(launcher, ProgramLauncher):
            launcher.begin(draft)
        yield {"launcher": launcher}


def _check(context: typer.Context, study: str, show: Callable[[bytes], None] | None) -> int:
    """Measure what a study recommends, and print whether it holds; returns the exit code."""
    _refuse_others(context)
    if not Path(study).exists() and Path(study).suffix not in (".json", ".toml"):
        check_study(study)
    # Late: --help and a mistyped flag must not wait for Optuna and pandas.
    from tuner.api import check
    from tuner.present.check_result import check_lines
    from tuner.present.progress_display import progress_of_command

    interruption = Interruption()
    flags = context.params
    given = read_flags({name: flags[name] for name in _IN_CHECK})
    try:
        with progress_of_command(quiet=flags["quiet"], log=flags["log"]) as progress:
            observer = Interruptible(progress, interruption)
            result = check(study, observer=observer, show=show, **given)
    except KeyboardInterrupt:
        raise InterruptedSearchError("the check was interrupted") from None
    if flags["as_json"]:
        print_json(result.to_json())
    else:
        _print_lines(check_lines(result), first_style="bold")
    return result.exit_code


def _refuse_others(context: typer.Context) -> None:
    """UsageError if the command line says what the study says already."""
    ours = (*_IN_CHECK, "check", "show_output", "as_json", "quiet", "log")
    wrong = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name and parameter.name not in ours
        if (source := context.get_parameter_source(parameter.name))
        if source.name == "COMMANDLINE"
    ]
    if context.obj:
        wrong.append("a program behind --")
    if wrong:
        raise UsageError(
            f"--check takes what it measures from the study: leave out {listed(wrong)}"
        )


def _list_workloads(as_json: bool) -> None:
    from tuner.present.before_search import print_catalogue
    from tuner.world.shipped import shipped_catalogue

    entries = shipped_catalogue()
    if as_json:
        print_json({"workloads": [entry.model_dump() for entry in entries]})
    else:
        print_catalogue(entries, stdout_console())


def _print_lines(lines: Iterable[str], first_style: str = "") -> None:
    console, style = stdout_console(), first_style
    for line in lines:
        console.print(line, style=style, soft_wrap=True, highlight=False)
        style = ""


def _show(printed: bytes) -> None:
    sys.stderr.buffer.write(printed)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
