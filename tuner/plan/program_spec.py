"""A program that is tuned as it is: the keys of a plan that name it, and what its runs showed."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.frozen_model import FrozenModel
from tuner.plan.keys import DEFAULTS, keys_of
from tuner.plan.knobs import INTRA_OP_THREADS, KNOBS, Value
from tuner.plan.measuring import AUTO, LEAST_START_S, sentence_of
from tuner.plan.objectives import METRIC
from tuner.plan.workload_spec import RankSpec, WorkloadSpec, distinct_roles
from tuner.roles import pattern_problem
from tuner.text import parse_duration_s

PROGRAM_KEYS = ("program", *keys_of("program"))
WINDOW_FIELDS = ("window_s", "warm_up_s", "window_is_chosen")
WHOLE_RUNS = "off"  # the window of a program whose runs are compared as a whole
# Of a function that sets up, there are fewer calls; and so many tell how often it is called.
LEAST_OF_WORK, LEAST_OF_MIX = 8, 20
# A run that takes so many times as long as the latest one is stuck; or as the first one, which was
# cold: a cold run may come after warm ones.
STUCK_RUN, STUCK_COLD_RUN = 10, 2
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


class SteadyPart(FrozenModel):
    """The part of a program's runs that stands for all of each."""

    warm_up_s: float
    window_s: float
    world_s: float  # about how long a run takes that is ended after it


class ProgramSpec(ProgramRequest):
    """A program as its first runs showed it."""

    ranks: tuple[RankSpec, ...] = Field(min_length=1)
    own: dict[str, dict[str, Any]]  # what the program itself gives each role, by knob, as JSON
    calls: tuple[int, ...]  # of each run that was not ended as soon as its calls had begun
    functions: tuple[dict[str, int], ...] = ()  # the same by what is called; empty: not known
    active_s: tuple[float | None, ...] = ()  # in how many seconds each run made them
    run_s: tuple[float, ...] = ()  # how long each run took, in seconds: the first one cold
    shuts_down: bool  # whether every rank calls `shutdown`
    own_network: bool  # whether it runs in a network namespace of its own
    has_world_size: bool = True  # else its ranks may join late and leave early
    steady: SteadyPart | None = None
    why_whole: str = ""  # why no part of a run stands for all of it, if that matters
    was_cut: bool = False  # whether no run was seen to its end: what would come there is not known
    starts: str = ""  # how its runs start, and why: `warm: ...` or `cold: ...`, if that is known
    cuda_devices: int = 0
    has_gil: bool = True
    sets_intra_op_threads: bool = False  # itself, after what the tool can set
    cpus_of_rank: int | None = None  # of a bound one's share; None where that is not known

    @property
    def kind(self) -> Literal["program"]:
        """What it is, in one word."""
        return "program"

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in order of first rank, each once."""
        return distinct_roles(self.ranks)

    @cached_property
    def own_config(self) -> Config:
        """What the program itself gives each role."""
        return Config.from_json(self.own)

    def default_of(self, role: str, knob: str) -> Value:
        """What the program gives a role; where roles differ, all roles have the driver's."""
        asked = self.roles[0] if role == ALL_ROLES else role
        return self.own_config.for_role(asked).get(knob, KNOBS[knob].default)

    def fingerprint(self) -> dict[str, Any]:
        """What studies of it must have in common, apart from the ranks."""
        asked = self.model_dump(
            mode="json",
            include={*ProgramRequest.model_fields} - {"window_is_chosen", "whole_runs"},
        )
        return {**asked, "own": self.own}

    @property
    def longest_run_s(self) -> float:
        """How long a run may take that is not stuck, in seconds; infinite where none went well."""
        if not self.run_s:
            return math.inf
        return max(LEAST_START_S, STUCK_RUN * self.run_s[-1], STUCK_COLD_RUN * self.run_s[0])

    @property
    def usual_s(self) -> float:
        """About how long a run takes, in seconds; 0 where none went well."""
        if self.window_is_chosen and self.steady is not None:
            return self.steady.world_s
        return self.run_s[-1] if self.run_s else 0.0

    @property
    def may_vary(self) -> bool:
        """Whether one run alone was seen to its end: others may make more or fewer calls."""
        return len(self.calls) == 1 < len(self.run_s)

    @property
    def varies(self) -> bool:
        """Whether its runs were seen to make more or fewer calls."""
        return len(set(self.calls)) > 1

    @property
    def work(self) -> tuple[str, ...]:
        """The functions that it calls equally often in each of several runs."""
        if len(self.functions) < 2:
            return ()
        first, *others = self.functions
        same = [each for each in first if all(run.get(each) == first[each] for run in others)]
        return tuple(same)

    @property
    def does_fixed_work(self) -> bool:
        """Whether its runs do the same work, as far as they show, though their numbers of calls
        may differ: then it is the others that it calls again and again until something is done.

        It calls some function as often in each; of few such calls, which may only set up, the time
        of a run must not go with the number of all calls.
        """
        if not self.varies:
            return not self.may_vary
        fixed = max((self.functions[0][name] for name in self.work), default=0)
        if not fixed or fixed >= LEAST_OF_WORK:
            return fixed > 0
        known = [each for each in self.active_s if each]
        if len(known) < len(self.calls) or not all(self.calls):
            return False
        spread, of_time = (max(each) / min(each) for each in (self.calls, known))
        return math.log(of_time) < math.log(spread) / 2

    @property
    def mix(self) -> dict[str, float]:
        """The share of each function in its calls, of those that it calls often in each run; empty
        where there are fewer than two."""
        if not all(self.functions) or not self.functions:
            return {}
        total = sum(sum(run.values()) for run in self.functions)
        often = [
            name
            for name in self.functions[0]
            if min(run.get(name, 0) for run in self.functions) >= LEAST_OF_MIX
        ]
        if len(often) < 2:
            return {}
        return {name: sum(run[name] for run in self.functions) / total for name in often}

    @property
    def objective_name(self) -> str:
        """What to make small where nobody says: the time per call where only that compares. A rank
        tells how many calls it has made as it shuts down, or where there is a window."""
        if self.metric is not None:
            return METRIC.name
        if self.window_s is None and not self.shuts_down:
            return "wall_s"
        if self.window_s is not None or not self.does_fixed_work:
            return "ms_per_call"
        return "rpc_active_s"


Subject = WorkloadSpec | ProgramSpec  # what is tuned


def intra_op_threads(subject: Subject, config: Config | None = None) -> dict[str, int]:
    """What `torch.set_num_threads` each role has with a configuration; None: by itself."""
    config, knob = config or Config.of({}), INTRA_OP_THREADS.name
    threads = {role: config.value_of(Dimension(role, knob), subject) for role in subject.roles}
    return {role: count for role, count in threads.items() if isinstance(count, int)}


def intra_op_text(subject: Subject, config: Config | None = None) -> str:
    """The same in words: `1`, or `2 (agent), 1 (observer)`."""
    threads = intra_op_threads(subject, config)
    if len(set(threads.values())) == 1:
        return str(next(iter(threads.values())))
    return ", ".join(f"{count} ({role})" for role, count in threads.items())


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
