"""The flags of a plan's keys: made for typer from the table of keys, and read."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, cast

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


_GROUPS = {
    "subject": "What to search",
    "program": "Of a program",
    "measuring": "How to measure",
    "launching": "Where to run it",
    "place": "The study",
}
"""What `--help` calls the parts of a plan."""
STUDY_GROUP, WHAT_GROUP = _GROUPS["place"], _GROUPS["subject"]


def _flag_of(key: PlanKey) -> Any:
    """The flag of a plan's key, for an annotation of typer."""
    named = {"workload": one_of(_workloads), "name": a_study}
    completion = named.get(key.name, one_of(key.choices) if key.choices else None)
    return typer.Option(
        key.flag, metavar=key.metavar, help=key.described, autocompletion=completion,
        rich_help_panel=_GROUPS[key.part],
    )  # fmt: skip


RoleOption = Annotated[list[str] | None, _flag_of(PLAN_KEYS["roles"])]
"""Which ranks have which role, for commands that start a program; see `tuner.flags.roles_of`."""
BesideOption = Annotated[list[str] | None, _flag_of(PLAN_KEYS["programs"])]
"""Further commands, for those that run a program; see `tuner.flags.commands_of`."""


_KINDS: dict[str, Any] = {"number": int | None, "switch": bool, "off switch": bool}
"""What typer makes of a flag, by the form of its key; of another one it makes text, or texts."""
_BEHIND = {"workload": "plan", "cold": "show_output"}
"""Flags of the search that stand behind those of the keys that they belong to."""


def with_plan_keys(
    own: Mapping[str, tuple[Any, Any]],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Have typer give a command, in its `**keys`, the flags of a plan's keys and others.

    Each of the others has its kind and its `typer.Option`. In the help they are last, but for two.
    """
    flags: dict[str, tuple[Any, Any]] = {}
    for name, key in PLAN_KEYS.items():
        text = list[str] | None if key.is_repeatable else str | None
        flags[name] = (_KINDS.get(key.form, text), _flag_of(key))
        if name in _BEHIND:
            flags[_BEHIND[name]] = own[_BEHIND[name]]
    place, annotated = inspect.Parameter.POSITIONAL_OR_KEYWORD, cast("Any", Annotated)
    parameters = [inspect.Parameter("context", place, annotation=typer.Context)]
    for name, (kind, flag) in {**flags, **own}.items():
        default = False if kind is bool else None
        as_flag = annotated[kind, flag]
        parameters.append(inspect.Parameter(name, place, default=default, annotation=as_flag))

    def give(function: Callable[..., None]) -> Callable[..., None]:
        vars(function)["__signature__"] = inspect.Signature(parameters)
        return function

    return give


def read_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a plan in the flags that are given, by name; UsageError if one is misspelt."""
    return {
        name: _read_flag(PLAN_KEYS[name], value)
        for name, value in given.items()
        if value is not None and value is not False
    }


def _read_flag(key: PlanKey, given: Any) -> object:
    match key.form:
        case "off switch":
            return False
        case "roles":
            return dict(roles_of(given))
        case "commands":
            return commands_of(given)
        case "pairs":
            return pairs_of(key.flag, given)
        case "options":
            pairs = pairs_of(key.flag, given)
            counts = Counter(name for name, _ in pairs)
            if twice := sorted(name for name, count in counts.items() if count > 1):
                raise UsageError(f"{key.flag} gives {', '.join(twice)} twice")
            return dict(pairs)
    return given
