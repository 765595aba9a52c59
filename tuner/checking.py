"""What `python -m tuner.search --check STUDY` does: measures a recommendation again."""

from collections.abc import Callable

import typer

from tuner.command_line import Interruptible, Interruption, print_json, stdout_console
from tuner.errors import InterruptedSearchError, UsageError
from tuner.text import listed

TAKEN = ("budget", "max_blocks", "epsilon", "confidence", "seed", "storage", "out", "ray_address",
         "interface")  # fmt: skip
"""The parameters of a search that say how and where to check, by their names in `check`."""
_TAKEN_TOO = ("check", "no_isolation", "show_output", "as_json", "quiet", "log")


def check_study(context: typer.Context, study: str, show: Callable[[bytes], None] | None) -> int:
    """Measure what a study recommends, and print whether it holds.

    Args:
        context: The parameters of the search command.
        study: A study's name or folder, or a `recommended.json`.
        show: Takes what a program prints, where a person asks for it.

    Returns:
        The exit code: 0 it holds, or nothing shows that it does not; 3 it cannot run; 4 it no
        longer holds.

    Raises:
        UsageError: The study cannot be checked, or a flag says what the study says already.
        NothingRanError: The program fails as it is, which is exit code 3 too.
        InterruptedSearchError: A KeyboardInterrupt came.
    """
    _refuse_others(context)
    # Late: --help and a mistyped flag must not wait for Optuna and pandas.
    from rich.text import Text

    from tuner.present.check_result import check_lines
    from tuner.present.other_progress import progress_of_command
    from tuner.rechecking import check

    interruption = Interruption()
    given = {name: context.params[name] for name in TAKEN}
    isolation = False if context.params["no_isolation"] else None
    try:
        quiet, log = context.params["quiet"], context.params["log"]
        with progress_of_command(quiet=quiet, log=log) as progress:
            observer = Interruptible(progress, interruption)
            result = check(study, isolation=isolation, observer=observer, show=show, **given)
    except KeyboardInterrupt:
        raise InterruptedSearchError("the check was interrupted") from None
    if context.params["as_json"]:
        print_json(result.to_json())
        return result.exit_code
    console = stdout_console()
    sentence, *more = check_lines(result)
    console.print(Text(sentence, style="bold"), soft_wrap=True)
    for line in more:
        console.print(Text(line), soft_wrap=True)
    return result.exit_code


def _refuse_others(context: typer.Context) -> None:
    """UsageError if the command line says what the study says already."""
    allowed = {*TAKEN, *_TAKEN_TOO}
    wrong = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and parameter.name not in allowed
        and _is_given(context, parameter.name)
    ]
    if context.obj:
        wrong.append("a program behind --")
    if wrong:
        raise UsageError(
            f"--check takes what it measures from the study: leave out {listed(wrong)}"
        )


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line gives a parameter, which else has its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
