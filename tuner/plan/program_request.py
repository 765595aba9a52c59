"""A program that is tuned as it is, as a person asks for it: the keys of a plan that name it."""

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from tuner.plan.frozen_model import FrozenModel
from tuner.plan.keys import DEFAULTS, keys_of
from tuner.plan.measuring import AUTO, sentence_of
from tuner.roles import pattern_problem
from tuner.text import parse_duration_s

PROGRAM_KEYS = ("program", *keys_of("program"))
WINDOW_FIELDS = ("window_s", "warm_up_s", "window_is_chosen")
WHOLE_RUNS = "off"  # the window of a program whose runs are compared as a whole
_NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_ ]*)=(.*)", re.DOTALL)


def _pattern(text: str) -> str:
    if problem := pattern_problem(text):
        raise ValueError(f"is not a regular expression: {text!r}: {problem}")
    return text


def _pattern_with_a_group(text: str) -> str:
    if re.compile(_pattern(text)).groups != 1:
        raise ValueError(f"needs one group in parentheses, such as 'loss: ([0-9.]+)', got {text!r}")
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]


class OutputMetric(FrozenModel):
    """A number that a program prints."""

    name: str
    pattern: Annotated[str, AfterValidator(_pattern_with_a_group)]  # its last match counts
    maximize: bool = False  # whether more is better

    def read(self, output: str) -> float | None:
        """The number in the output; None if there is none above zero."""
        found = re.findall(self.pattern, output, re.MULTILINE)
        try:
            value = float(found[-1].replace(",", "")) if found else 0.0
        except ValueError:
            return None
        return value if 0 < value < float("inf") else None


class ProgramRequest(FrozenModel):
    """A program as a person asks for it: how to run it, and what to read from it."""

    # The command; or several, which are run side by side and are one world.
    commands: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...] = Field(min_length=1)
    role_patterns: tuple[tuple[str, Pattern], ...] = ()  # pairs; see `tuner.roles.role_of`
    expect: Pattern | None = None  # what the output must match somewhere, or the answer is wrong
    metric: OutputMetric | None = None
    window_s: float | None = None  # in which calls are counted; None: it ends by itself
    warm_up_s: float = 0.0  # seconds to it from the last `init_rpc`; a chosen one: the first call
    window_is_chosen: bool = False  # by its first runs, so that a run may end before it is over
    whole_runs: bool = False  # whether no window may be chosen
    cold: bool = False  # whether each run starts its interpreters anew

    @property
    def reference(self) -> str:
        """The commands as a person would type them."""
        return " & ".join(shlex.join(command) for command in self.commands)

    @property
    def study_name(self) -> str:
        """The name of a study of it when nobody gives one: `main` for `python main.py`."""
        words = self.commands[0]
        scripts = [word for word in words if word.endswith((".py", ".sh"))]
        modules = [name for flag, name in pairwise(words) if flag == "-m"]
        name = scripts[0] if scripts else modules[0] if modules else words[0]
        stem = PurePath(name).stem if scripts or not modules else name.rpartition(".")[2]
        return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-") or "program"

    def keys(self) -> dict[str, Any]:
        """The keys of a plan that ask for this program: the inverse of `read_program`."""
        metric = self.metric
        return {
            "roles": list(self.role_patterns),
            "expect": self.expect,
            "metric": None if metric is None else f"{metric.name}={metric.pattern}",
            "maximize": None if metric is None else metric.maximize,
            "window": self._window,
            "warm_up": None if self.window_s is None else self.warm_up_s,
            "cold": self.cold,
            "programs": [list(command) for command in self.commands],
        }

    @property
    def _window(self) -> str | float | None:
        if self.window_s is None:
            return WHOLE_RUNS if self.whole_runs else None
        return f"{AUTO}:{self.window_s!r}s" if self.window_is_chosen else self.window_s


def read_program(mapping: Mapping[str, Any]) -> tuple[ProgramRequest | None, list[str]]:
    """The program of a plan, None if it has none; and every mistake of its keys."""
    given = {key: mapping[key] for key in PROGRAM_KEYS if mapping.get(key) is not None}
    if not {"program", "programs"} & given.keys():
        return None, [f"{key} is for a program, and the plan has none" for key in given]
    problems: list[str] = []
    if {"program", "programs"} <= given.keys():
        problems.append("a plan has one program, or several programs that are one world")
    key, listed = "program", [given.pop("program", None)]
    if (several := given.pop("programs", None)) is not None:
        is_list = isinstance(several, Sequence) and not isinstance(several, str)
        key, listed = "programs", list(several) if is_list else [several]
    commands = [_words(key, each, problems) for each in listed]
    if not commands:
        problems.append("programs must name at least one command")
    roles = given.pop("roles", ())
    given["role_patterns"] = list(roles.items()) if isinstance(roles, Mapping) else roles
    given |= {"commands": commands, **_metric(given, problems), **_window(given, problems)}
    if not commands or None in commands:
        return None, problems
    try:
        return ProgramRequest.model_validate(given), problems
    except ValidationError as error:
        return None, [*problems, *map(sentence_of, error.errors())]


def _words(key: str, command: object, problems: list[str]) -> Sequence[object] | None:
    """A command as its words, also of a line as a shell reads it; None if there are none."""
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
    named = str(given.get("window", "")).strip().lower()
    auto, _, chosen = named.partition(":")
    if named == WHOLE_RUNS or auto == AUTO:
        seconds |= {"whole_runs": named == WHOLE_RUNS, "window_is_chosen": bool(chosen)}
        given["window"] = chosen or None
    for key in ("window", "warm_up"):
        if (raw := given.pop(key, None)) is not None:
            try:
                seconds[f"{key}_s"] = parse_duration_s(raw)
            except ValueError as error:
                problems.append(f"{key} {error}")
    if "window_s" in seconds:
        seconds.setdefault("warm_up_s", parse_duration_s(DEFAULTS["warm_up"]))
    elif "warm_up_s" in seconds:
        problems.append("warm_up is for a window, and none is given")
    return seconds
