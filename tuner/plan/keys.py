"""The keys of a plan, in a table: each stands in a plan file, is a keyword of `tuner.tune`, and a
flag.

Adding one is an entry here, with its default, a field of what the plan holds (`measuring`,
`launching` or `program_request`), and the keyword with its documentation. Standard library only,
for `--help`.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tuner.plan.knobs import CPU_BINDING, INTRA_OP_THREADS, KNOBS, NUM_WORKER_THREADS
from tuner.plan.objectives import OBJECTIVES
from tuner.roles import PATTERNS_HELP

LauncherName = Literal["local", "ray"]
SamplerName = Literal["auto", "grid", "tpe", "gp", "random"]
LAUNCHERS, SAMPLERS = get_args(LauncherName), get_args(SamplerName)
# What is searched where nobody names a space.
DEFAULT_SPACE = {NUM_WORKER_THREADS.name: "1..32:x2", CPU_BINDING.name: "none,equal"}
# What a key is about; `place`: which study it is, and where.
Part = Literal["subject", "program", "measuring", "launching", "place"]
Form = Literal[
    "text", "number", "duration", "switch", "off switch", "list", "pairs", "options", "roles",
    "commands",
]  # fmt: skip
"""What a flag takes; an `off switch` sets its key to false."""


@dataclass(frozen=True)
class PlanKey:
    """A key of a plan."""

    name: str
    part: Part
    help: str  # of its flag
    form: Form = "text"
    flag: str = ""  # where it is not the name with dashes
    metavar: str | None = None
    choices: tuple[str, ...] = ()  # the names that a shell completes
    default: str | int | bool | None = None  # as a plan file has it; None: what `help` says
    of_program: str | None = None  # the default of a program, where it is another
    in_check: bool = False  # whether the check of a recommendation takes it, too
    may_change: bool = False  # whether a study that is resumed may have another value than before

    def __post_init__(self) -> None:
        if not self.flag:
            object.__setattr__(self, "flag", f"--{self.name.replace('_', '-')}")

    @property
    def is_repeatable(self) -> bool:
        """Whether its flag may be given more than once."""
        return self.form in ("list", "pairs", "options", "roles", "commands")

    @property
    def described(self) -> str:
        """The help of its flag, with its default."""
        if self.default is None or "switch" in self.form:
            return self.help
        program = f"; {self.of_program} for a program" if self.of_program else ""
        return f"{self.help} Default: {self.default}{program}."

    def arguments(self, value: Any) -> list[str]:
        """The words of a command that give it a value, which is as a plan holds it."""
        if value is None:
            return []
        if "switch" in self.form:
            return [self.flag] if value == (self.form == "switch") else []
        if self.form == "commands":
            first, *others = value
            beside = [word for each in others for word in (self.flag, shlex.join(each))]
            return [*beside, "--", *first]
        if self.form in ("pairs", "options", "roles"):
            pairs = value.items() if isinstance(value, Mapping) else value
            texts = [f"{name}={one}" for name, one in pairs]
        elif self.form == "duration" and not isinstance(value, str):
            texts = [f"{value!r}s"]
        else:
            texts = value if self.form == "list" else [str(value)]
        return [word for text in texts for word in (self.flag, text)]


def search_arguments(keys: Mapping[str, Any], usual: Mapping[str, Any] = {}) -> list[str]:
    """The arguments of a search that ask for what a plan's keys say, but for what is `usual`, in
    their order; but a program stands behind everything else."""
    in_order = sorted(keys.items(), key=lambda item: PLAN_KEYS[item[0]].part == "program")
    given = [(PLAN_KEYS[name], value) for name, value in in_order if value != usual.get(name)]
    return [word for key, value in given for word in key.arguments(value)]


def _objectives_of(kind: str) -> str:
    return ", ".join(name for name, each in OBJECTIVES.items() if kind in each.of)


_KEYS = (
    PlanKey("workload", "subject", "A shipped workload, package.module:Class or file.py:Class."),
    PlanKey("options", "subject", "A workload option.", "options", "--set", "NAME=VALUE"),
    PlanKey("space", "subject", f"A knob to tune and its values, of {', '.join(KNOBS)}. Given once "
            "or more, it replaces the plan's space. Default without one: "
            f"{', '.join(f'{knob}={values}' for knob, values in DEFAULT_SPACE.items())}, and "
            f"{INTRA_OP_THREADS.name} where operators compute.",
            "pairs", metavar="[ROLE.]KNOB=VALUES"),
    PlanKey("baseline", "subject", "What to compare with. Default for each knob not given: the "
            "program's own value, or PyTorch's default.",
            "pairs", metavar="[ROLE.]KNOB=VALUE"),
    PlanKey("objective", "measuring", f"Of a workload: {_objectives_of('workload')}. Of a program: "
            f"{_objectives_of('program')}. Two of them, as step_ms,cpu_ms_per_step, show a Pareto "
            "front; the first one decides. Without one a program has rpc_active_s, or ms_per_call "
            "where its number of calls varies with its work.",
            choices=tuple(OBJECTIVES), default="step_ms"),
    PlanKey("require", "measuring", "What a configuration must keep to be recommended: "
            "peak_rss_mb<=2000, step_p99_ms<=50. By the median over its worlds.",
            "list", metavar="METRIC<=NUMBER"),
    PlanKey("metric", "program", "Make a number small that the program prints: the only group of "
            "the pattern, where it matches last.", metavar="NAME=REGEX"),
    PlanKey("maximize", "program", "Make the number of --metric large.", "switch"),
    PlanKey("expect", "program", "A pattern that the program's output must match, or its answer is "
            "wrong.", metavar="REGEX"),
    PlanKey("window", "program", "For a program that does not end: count its calls for this long, "
            "then end it. auto: so long runs, too, where a part stands for all; off: whole runs. "
            "Default: auto.", "duration", metavar="TIME|auto|off"),
    PlanKey("warm_up", "program", "Time from the last rank's init_rpc to the window.",
            "duration", metavar="TIME", default="5s"),
    PlanKey("roles", "program", PATTERNS_HELP, "roles", "--role", "ROLE=PATTERN"),
    PlanKey("programs", "program", "A command to run beside the program, as one world.",
            "commands", "--beside", "COMMAND"),
    PlanKey("cold", "program", "Start Python anew for each run. Default: fork it where that works.",
            "switch"),
    PlanKey("budget", "measuring", "Wall time, such as 60s; or auto: until the answer is clear, at "
            "most 10m, or what is named, as auto:20m.", "duration", metavar="TIME|auto|auto:TIME",
            default="60s", of_program="5m", in_check=True, may_change=True),
    PlanKey("max_blocks", "measuring", "The most blocks to measure.", "number",
            in_check=True, may_change=True),
    PlanKey("exhaustive", "measuring", "Race all configurations at once, to the end of the budget.",
            "switch", may_change=True),
    PlanKey("epsilon", "measuring", "The smallest difference that matters, such as 5%.",
            default="3%", in_check=True),
    PlanKey("confidence", "measuring", "How sure every claim must be, such as 99%.",
            default="95%", in_check=True),
    PlanKey("min_time", "measuring", "How long the timed steps of a world last at least.",
            "duration", default="100ms"),
    PlanKey("deadline", "measuring", "A world that takes longer is ended, as a failure.",
            "duration", default="30s", of_program="10m"),
    PlanKey("sampler", "measuring", "Who proposes what to measure where the grid is larger than "
            "the budget can measure; grid measures all of it; auto is grid or tpe.",
            metavar="|".join(SAMPLERS), choices=SAMPLERS, default="auto", may_change=True),
    PlanKey("seed", "measuring", "Seeds the inputs, and the order in blocks.", "number",
            default=0, in_check=True),
    PlanKey("launcher", "launching", "What runs the worlds: processes on this machine, or on the "
            "hosts of a Ray cluster.",
            metavar="|".join(LAUNCHERS), choices=LAUNCHERS, default="local"),
    PlanKey("ray_address", "launching", "The Ray cluster. Default: the one that runs here, or else "
            "one of this machine alone, which is ended in the end.",
            metavar="HOST:PORT", in_check=True, may_change=True),
    PlanKey("place", "launching", "On how many hosts of the cluster a role runs: server=1, "
            "caller=spread; and what each rank reserves. Different entries share no host; "
            "server+caller=1 share theirs.",
            "pairs", metavar="ROLE=HOSTS[,cpus=N][,gpus=N]"),
    PlanKey("interface", "launching", "The network interface between hosts. Default: that of the "
            "route to the others.", metavar="NAME", in_check=True, may_change=True),
    PlanKey("isolation", "launching", "Run worlds in the machine's network instead of one of their "
            "own, where others of this machine can reach them.",
            "off switch", "--no-isolation", default=True, in_check=True, may_change=True),
    PlanKey("groups", "launching", "Measure N blocks at a time, each wholly by one group of CPUs, "
            "or of hosts.", "number", metavar="N", default=1),
    PlanKey("cpus_per_world", "launching", "Pin the ranks of each world to so many logical CPUs, "
            "which they share. Default: an equal part for each group; with one group they are not "
            "pinned.", "number", metavar="N"),
    PlanKey("name", "place", "The study's name. Default: the plan's or the script's.",
            flag="--study", metavar="NAME"),
    PlanKey("storage", "place", "Optuna storage. Default: SQLite in the study's folder.",
            metavar="URL", in_check=True),
    PlanKey("out", "place", "The study's folder: a new or an empty one, or that of an earlier "
            "study of this name. Default: studies/NAME.", metavar="DIR", in_check=True),
)  # fmt: skip
PLAN_KEYS = {key.name: key for key in _KEYS}  # by name, in the order of `--help`
DEFAULTS: Mapping[str, Any] = {key.name: key.default for key in _KEYS if key.default is not None}
OF_PROGRAMS = {key.name: key.of_program for key in _KEYS if key.of_program is not None}
"""The defaults of a program that are others: it starts slowly, and runs for long."""


def keys_of(part: Part) -> tuple[str, ...]:
    """The names of the keys of a part."""
    return tuple(name for name, key in PLAN_KEYS.items() if key.part == part)
