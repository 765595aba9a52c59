"""The flags of a plan's keys: made for typer from the table of keys, and read."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import typer

from tuner.command_line import a_study, one_of
from tuner.errors import UsageError
from tuner.flags import commands_of, pairs_of, roles_of
from tuner.plan.keys import PLAN_KEYS, PlanKey


def _workloads() -> Iterable[str]:
    from tuner.workloads_package import own_workloads

    own_workloads()
    from workloads.registry import SHIPPED

    return SHIPPED


def _flag_of(key: PlanKey) -> Any:
    """The flag of a plan's key, for an annotation of typer."""
    named = {"workload": one_of(_workloads), "name": a_study}
    completion = named.get(key.name, one_of(key.choices) if key.choices else None)
    return typer.Option(key.flag, metavar=key.metavar, help=key.help, autocompletion=completion)


RoleOption = Annotated[list[str] | None, _flag_of(PLAN_KEYS["roles"])]
"""Which ranks have which role, for commands that start a program; see `tuner.flags.roles_of`."""
BesideOption = Annotated[list[str] | None, _flag_of(PLAN_KEYS["programs"])]
"""Further commands, for those that run a program; see `tuner.flags.commands_of`."""


def with_plan_keys(function: Callable[..., None]) -> Callable[..., None]:
    """Have typer give a command the flag of each key of a plan, in its `**keys`.

    In the help, the command's own flags follow those of the keys, but for two that stand with the
    key that they belong to.
    """
    behind = {"workload": "plan", "cold": "show_output"}
    own = dict(inspect.signature(function).parameters)
    parameters = [own.pop("context")]
    del own["keys"]
    annotated: Any = Annotated
    for name, key in PLAN_KEYS.items():
        kind: Any = bool if "switch" in key.form else str | None
        if key.form == "number":
            kind = int | None
        elif key.is_repeatable:
            kind = list[str] | None
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=False if kind is bool else None,
                annotation=annotated[kind, _flag_of(key)],
            )
        )
        if name in behind:
            parameters.append(own.pop(behind[name]))
    vars(function)["__signature__"] = inspect.Signature([*parameters, *own.values()])
    return function


def read_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a plan in the flags that are given, by name; UsageError if one is misspelt."""
    return {
        name: _read_flag(PLAN_KEYS[name], value)
        for name, value in given.items()
        if value is not None and value is not False
    }


def _read_flag(key: PlanKey, given: Any) -> object:
    if key.form == "off switch":
        return False
    if key.form == "roles":
        return dict(roles_of(given))
    if key.form == "commands":
        return commands_of(given)
    if key.form not in ("pairs", "options"):
        return given
    pairs = pairs_of(key.flag, given)
    if key.form == "pairs":
        return pairs
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{key.flag} gives {', '.join(twice)} twice")
    return dict(pairs)
