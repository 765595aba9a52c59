"""`python -m tuner.search`: find the best RPC configuration for a workload or a program."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tuner import completing
from tuner.checking import check_study
from tuner.command_line import (
    BesideOption,
    Command,
    CpusPerWorldOption,
    GroupsOption,
    InterfaceOption,
    Interruptible,
    Interruption,
    LauncherOption,
    NoIsolationOption,
    PlaceOption,
    RayAddressOption,
    RoleOption,
    print_json,
    run,
    stdout_console,
    told_program,
)
from tuner.errors import InterruptedSearchError, NothingRanError, UsageError
from tuner.flags import commands_of, pairs_of, roles_of
from tuner.plan.knobs import KNOBS
from tuner.plan.objectives import OBJECTIVES

app = typer.Typer(add_completion=False, rich_markup_mode=None)

EPILOG = (
    "Values: num_worker_threads=1,2,4 lists; 1..32 are the powers of two, 1..8:1 every number; "
    "transports=shm,uv,shm+uv are three lists of transports. Exit codes: 0 answered, 1 internal "
    "error, 2 bad usage or bad input, 3 no configuration could run or keeps the limits, "
    "4 a recommendation no longer holds (--check), 130 interrupted."
)

_NOT_OF_A_PLAN = ("show", "overwrite")
"""What a search is asked for beside its plan."""


def _objectives_of(kind: str) -> str:
    return ", ".join(name for name, each in OBJECTIVES.items() if kind in each.of)


@app.command(cls=Command, epilog=EPILOG, options_metavar="[OPTIONS] [-- COMMAND...]")
def search(
    context: typer.Context,
    workload: Annotated[
        str | None,
        typer.Option(
            autocompletion=completing.workload,
            help="A shipped workload, package.module:Class or file.py:Class.",
        ),
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="A study plan (TOML).")] = None,
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A workload option.")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ROLE.]KNOB=VALUES",
            help=f"A knob to tune and its values, of {', '.join(KNOBS)}. Given once or more, it "
            "replaces the plan's space. Default without one: num_worker_threads=1..32, "
            "cpu_binding=none,equal.",
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ROLE.]KNOB=VALUE",
            help="What to compare with. Default for each knob not given: the program's own value, "
            "or PyTorch's default.",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            autocompletion=completing.one_of(OBJECTIVES),
            help=f"Of a workload: {_objectives_of('workload')}. Of a program: "
            f"{_objectives_of('program')}. Two of them, as step_ms,cpu_ms_per_step, show a Pareto "
            "front; the first one decides. Default: step_ms; rpc_active_s.",
        ),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC<=NUMBER",
            help="What a configuration must keep to be recommended: peak_rss_mb<=2000, "
            "step_p99_ms<=50. By the median over its worlds.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=REGEX",
            help="Make a number small that the program prints: the only group of the pattern, "
            "where it matches last.",
        ),
    ] = None,
    maximize: Annotated[
        bool, typer.Option("--maximize", help="Make the number of --metric large.")
    ] = False,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="A pattern that the program's output must match, or its answer is wrong.",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="For a program that does not end: count its calls for this long, then end it.",
        ),
    ] = None,
    warm_up: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Time from the last rank's init_rpc to the window. Default: 5s."
        ),
    ] = None,
    role: RoleOption = None,
    beside: BesideOption = None,
    cold: Annotated[
        bool,
        typer.Option(
            "--cold", help="Start Python anew for each run. Default: fork it where that works."
        ),
    ] = False,
    show_output: Annotated[
        bool, typer.Option("--show-output", help="Show what the program prints, on stderr.")
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|auto|auto:TIME",
            help="Wall time, such as 60s; or auto: until the answer is clear, at most 10m, or what "
            "is named, as auto:20m. Default: 60s; 5m for a program.",
        ),
    ] = None,
    max_blocks: Annotated[int | None, typer.Option(help="The most blocks to measure.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="The smallest difference that matters, such as 3%.")
    ] = None,
    confidence: Annotated[
        str | None, typer.Option(help="How sure every claim must be, such as 95%.")
    ] = None,
    min_time: Annotated[
        str | None, typer.Option(help="How long the timed steps of a world last at least.")
    ] = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            help="A world that takes longer is ended, as a failure. Default: 30s, or 10m."
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            metavar="auto|grid|tpe|gp|random",
            autocompletion=completing.sampler,
            help="Who proposes what to measure where the grid is larger than the budget can "
            "measure; grid measures all of it. Default: auto, which is grid or tpe.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seeds the inputs, and the order in blocks.")
    ] = None,
    launcher: LauncherOption = None,
    ray_address: RayAddressOption = None,
    place: PlaceOption = None,
    interface: InterfaceOption = None,
    no_isolation: NoIsolationOption = False,
    groups: GroupsOption = None,
    cpus_per_world: CpusPerWorldOption = None,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            autocompletion=completing.study,
            help="The study's name. Default: the plan's or the script's.",
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Optuna storage. Default: SQLite in the study's folder."),
    ] = None,
    # No Path: it would take '' for the current folder.
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="The study's folder: a new or an empty one, or that of an earlier study of this "
            "name. Default: studies/NAME.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue a study that was interrupted, or with a larger --budget one that is "
            "finished. --study NAME is enough to say which.",
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Delete a study of this name first, with the files that it made."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Run the baseline a few times, and say what the budget can be expected to show.",
        ),
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="STUDY",
            autocompletion=completing.study,
            help="Measure an earlier recommendation against its baseline, here and now: that of a "
            "study, or of a recommended.json. Goes with --budget, --max-blocks, --epsilon, "
            "--confidence, --seed, --storage, --out, --ray-address, --interface, "
            "--no-isolation, --show-output, --quiet, --log and --json.",
        ),
    ] = None,
    list_workloads: Annotated[
        bool,
        typer.Option("--list-workloads", help="Show the shipped workloads, roles and options."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, progress on stderr.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress, and of the answer the verdict alone.")
    ] = False,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the progress to a file, each line with its time."),
    ] = None,
) -> None:
    """Find the best torch.distributed.rpc configuration, on this machine.

    For a workload, or for a program that nobody edits: python -m tuner.search -- python main.py
    """
    if list_workloads:
        _list_workloads(as_json)
        return
    if check is not None:
        raise typer.Exit(check_study(context, check, _show if show_output else None))
    task: Callable[..., None] = _forecast
    session: dict[str, Any] = {}
    if dry_run and resume:
        raise UsageError("--dry-run tells of a new search: leave out --resume")
    if not dry_run:
        task = partial(_answer, quiet=quiet, log=log)
        session = {"resume": resume, "overwrite": overwrite}
    task(
        as_json,
        workload=workload,
        program=told_program(context) or None,
        beside=commands_of(beside),
        roles=dict(roles_of(role)) or None,
        expect=expect,
        metric=metric,
        maximize=maximize,
        window=window,
        warm_up=warm_up,
        cold=cold,
        show=_show if show_output else None,
        plan=plan,
        options=_option_values(options) if options else None,
        space=pairs_of("--space", space) if space else None,
        baseline=pairs_of("--baseline", baseline) if baseline else None,
        objective=objective,
        require=require or None,
        budget=budget,
        max_blocks=max_blocks,
        epsilon=epsilon,
        confidence=confidence,
        min_time=min_time,
        deadline=deadline,
        sampler=sampler,
        seed=seed,
        launcher=launcher,
        ray_address=ray_address,
        place=pairs_of("--place", place) if place else None,
        interface=interface,
        isolation=False if no_isolation else None,
        groups=groups,
        cpus_per_world=cpus_per_world,
        name=study,
        storage=storage,
        out=out,
        **session,
    )


def _refuse_typos(
    workload: str | None,
    program: Any,
    beside: Any,
    plan: Path | None,
    *,
    resume: bool = False,
    **asked: Any,
) -> None:
    """UsageError for what is wrong whatever the workload or the program is.

    It takes a fraction of a second. All that is asked is looked at again once that is known. Where
    a study says what it tunes, that is read first.
    """
    from tuner.study.resuming import asked_or_resumed_draft
    from tuner.world.shipped import mistakes_of

    keys = {key: value for key, value in asked.items() if key not in _NOT_OF_A_PLAN}
    draft = asked_or_resumed_draft(workload, program, beside, plan, keys, resume=resume)
    if mistakes := mistakes_of(draft):
        if draft.workload and not draft.problems:
            raise UsageError.about(f"workload {draft.workload}", mistakes)
        raise UsageError.of_request(mistakes)


def _forecast(as_json: bool, **asked: Any) -> None:
    """Say what a search for what is asked would do."""
    _refuse_typos(**asked)
    from tuner.api import forecast
    from tuner.present.before_search import forecast_lines

    found, plan = forecast(**asked)
    if as_json:
        print_json(found.to_json())
        return
    console = stdout_console()
    for line in forecast_lines(found, plan.measuring.epsilon):
        console.print(line, soft_wrap=True, highlight=False)


def _answer(as_json: bool, *, quiet: bool, log: Path | None, **asked: Any) -> None:
    """Search for what is asked, in the words of `tuner.tune`, and print the answer."""
    _refuse_typos(**asked)
    # Late: --help and what is mistyped must not wait for Optuna, pandas and matplotlib.
    from tuner.api import SearchInterrupted, tune
    from tuner.present.failures import why_nothing_ran
    from tuner.present.other_progress import progress_of_command
    from tuner.present.summary import print_interruption, print_summary, print_verdict
    from tuner.present.terminal import Terminal

    interruption = Interruption()
    try:
        with progress_of_command(quiet=quiet, log=log) as progress:
            result = tune(observer=Interruptible(progress, interruption), **asked)
    except SearchInterrupted as ending:
        print_interruption(ending.result.answer, Terminal(stderr=True))
        raise
    except KeyboardInterrupt:
        raise InterruptedSearchError("interrupted before anything was measured") from None
    if as_json:
        print_json(result.to_json())
    elif quiet:
        print_verdict(result.answer, stdout_console())
    else:
        print_summary(result.answer, stdout_console())
    if result.best is None and result.verdict is None:
        raise NothingRanError(why_nothing_ran(result.answer))
    if result.none_feasible:
        raise NothingRanError("no configuration of the search space keeps the limits of --require")


def _list_workloads(as_json: bool) -> None:
    from tuner.present.before_search import print_catalogue
    from tuner.world.shipped import shipped_catalogue

    entries = shipped_catalogue()
    if as_json:
        print_json({"workloads": [entry.model_dump() for entry in entries]})
    else:
        print_catalogue(entries, stdout_console())


def _show(printed: bytes) -> None:
    sys.stderr.buffer.write(printed)
    sys.stderr.flush()


def _option_values(entries: list[str]) -> dict[str, str]:
    pairs = pairs_of("--set", entries)
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"--set gives {', '.join(twice)} twice")
    return dict(pairs)


def main(arguments: list[str] | None = None, program: str = "python -m tuner.search") -> int:
    """Run the command; returns the exit code and prints errors to stderr."""
    return run(app, arguments, program, takes_program=True)


if __name__ == "__main__":
    sys.exit(main())
