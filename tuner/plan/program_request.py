"""The keys of a plan that name a program, and how it is to be run."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tuner.plan.keys import keys_of
from tuner.plan.measuring import sentence_of
from tuner.plan.program_spec import OutputMetric, ProgramRequest
from tuner.plan.quantities import parse_duration_s

PROGRAM_KEYS = ("program", *keys_of("program"))
DEFAULT_WARM_UP_S = 5.0

_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_ ]*)=(.*)", re.DOTALL)


def read_program(mapping: Mapping[str, Any]) -> tuple[ProgramRequest | None, list[str]]:
    """The program of a plan, None if it has none; and every mistake of its keys."""
    given = {key: mapping[key] for key in PROGRAM_KEYS if mapping.get(key) is not None}
    if not {"program", "programs"} & given.keys():
        return None, [f"{key} is for a program, and the plan has none" for key in given]
    problems: list[str] = []
    if {"program", "programs"} <= given.keys():
        problems.append("a plan has one program, or several programs that are one world")
    single, several = given.pop("program", None), given.pop("programs", None)
    if several is None:
        given["commands"] = [_words("program", single, problems)]
    else:
        is_list = isinstance(several, Sequence) and not isinstance(several, str)
        commands = several if is_list else [several]
        given["commands"] = [_words("programs", each, problems) for each in commands]
        if not commands:
            problems.append("programs must name at least one command")
    if isinstance(given.get("roles"), Mapping):
        given["roles"] = list(given["roles"].items())
    if "roles" in given:
        given["role_patterns"] = given.pop("roles")
    given.update(_metric(given, problems))
    given.update(_window(given, problems))
    if not given["commands"] or None in given["commands"]:
        return None, problems
    try:
        return ProgramRequest.model_validate(given), problems
    except ValidationError as error:
        return None, [*problems, *map(sentence_of, error.errors())]


def program_keys(request: ProgramRequest) -> dict[str, Any]:
    """The keys of a plan that ask for this program: the inverse of `read_program`."""
    metric = request.metric
    return {
        "roles": list(request.role_patterns),
        "expect": request.expect,
        "metric": None if metric is None else f"{metric.name}={metric.pattern}",
        "maximize": None if metric is None else metric.maximize,
        "window": request.window_s,
        "warm_up": None if request.window_s is None else request.warm_up_s,
        "cold": request.cold,
        "programs": [list(command) for command in request.commands],
    }


def _words(key: str, command: object, problems: list[str]) -> Sequence[object] | None:
    """A command as its words, also of a line as a shell reads it; None if there are none."""
    words = command
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        problems.append(f"{key}: {command!r} is no command: {error}")
        return None
    if isinstance(words, Sequence) and words and all(isinstance(word, str) for word in words):
        return words
    problems.append(
        f'{key} must be a command, such as "python main.py" or ["python", "main.py"], got '
        f"{command!r}"
    )
    return None


def _metric(given: dict[str, Any], problems: list[str]) -> dict[str, object]:
    """`NAME=PATTERN`, or the pattern alone."""
    pattern, maximize = given.pop("metric", None), given.pop("maximize", False)
    if pattern is None:
        if maximize:
            problems.append("maximize is for a metric, and none is given")
        return {}
    named = _NAMED.fullmatch(str(pattern))
    name, text = (named[1].strip(), named[2]) if named else ("metric", str(pattern))
    try:
        return {"metric": OutputMetric(name=name, pattern=text, maximize=maximize)}
    except ValidationError as error:
        problems += [sentence_of(detail, "metric") for detail in error.errors()]
        return {}


def _window(given: dict[str, Any], problems: list[str]) -> dict[str, object]:
    """The two durations in seconds; a window alone has the usual warm-up."""
    seconds: dict[str, object] = {}
    for key in ("window", "warm_up"):
        if (raw := given.pop(key, None)) is not None:
            try:
                seconds[f"{key}_s"] = parse_duration_s(raw)
            except ValueError as error:
                problems.append(f"{key} {error}")
    if "window_s" in seconds:
        seconds.setdefault("warm_up_s", DEFAULT_WARM_UP_S)
    elif "warm_up_s" in seconds:
        problems.append("warm_up is for a window, and none is given")
    return seconds
