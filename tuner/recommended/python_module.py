"""The recommendation as Python source that needs no rpc-tuner, in the layout of ruff and Black."""

import inspect
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuner import cpus
from tuner.plan.knobs import INTRA_OP_THREADS, SWITCH_INTERVAL, Value, agent_options
from tuner.recommended.model import Measured, Recommendation, Speedup
from tuner.recommended.recheck import recheck_command
from tuner.text import UNTOLD, bound_text, is_told, percent, plural, three_digits
from tuner.torch_private.private_names import PRIVATE_KEYWORDS

WIDTH = 88

ALONE = "cpu_binding is for ranks that have the machine to themselves."
BINDING_IMPORTS = (
    "from contextlib import suppress",
    "from itertools import groupby",
    "from pathlib import Path",
)
# What `tuner.cpus.bind_rank` does, in few lines of the standard library.
BIND_CPUS = f'''\
MARK = "RPC_TUNER_CPUS"  # before and after binding, for what this process starts
CPUS = os.sched_getaffinity(0)
if MARK in os.environ:
    before, now = ({{*map(int, part.split(","))}} for part in os.environ[MARK].split("/"))
    CPUS = before if now == CPUS else CPUS
Place = tuple[list[int], int, int]  # NUMA node, first thread of its core, and number


{inspect.getsource(cpus.places_of)}

{inspect.getsource(cpus.share_of)}

def bind_cpus(rank: int, world_size: int) -> None:
    """Keep this process to its share of the host's CPUs; no container's quota is read."""
    torchrun = os.getenv("RANK"), os.getenv("WORLD_SIZE")
    own = os.environ if torchrun == (str(rank), str(world_size)) else {{}}
    index, ranks = own.get("LOCAL_RANK", rank), own.get("LOCAL_WORLD_SIZE", world_size)
    share = share_of(places_of(CPUS), int(index), int(ranks))
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread), share)
    os.environ[MARK] = "/".join(",".join(map(str, cpus)) for cpus in (CPUS, share))
'''

_START = '''\
def start_rpc(rank: int) -> None:
    """Start RPC in the process of this rank; MASTER_ADDR and MASTER_PORT say where."""
    name, role = RANKS[rank]
{process}    torch.set_num_threads(INTRA_OP_THREADS[role])
    rpc.init_rpc(
        name,
        rank=rank,
        world_size=len(RANKS),
        rpc_backend_options=OPTIONS[role],
    )


if __name__ == "__main__":
    if "RANK" not in os.environ:
        raise SystemExit(f"to see that it runs: {SELF_CHECK} {sys.argv[0]}")
    start_rpc(int(os.environ["RANK"]))
    gauges = rpc.api._get_current_rpc_agent().get_debug_info()
    threads = gauges["agent.thread_pool_size"]
    line = f"{rpc.get_worker_info().name}: num_worker_threads={threads}{cpus}\\n"
    print(line, end="", flush=True)
    rpc.shutdown()
'''


@dataclass(frozen=True)
class Code:
    """An expression: `head` alone, or parts in brackets between `head` and `tail`."""

    head: str
    parts: tuple["Code", ...] = ()
    tail: str = ""

    def __str__(self) -> str:
        """On one line."""
        return f"{self.head}{', '.join(map(str, self.parts))}{self.tail}"

    def labelled(self, label: str) -> "Code":
        """The same after a keyword, a key, or the left side of an assignment."""
        return Code(label + self.head, self.parts, self.tail)

    def lines(self, indent: int = 0, *, spread: bool = False) -> list[str]:
        """On one line if it fits with a comma after it; else, or to `spread` it, part by part."""
        margin = " " * indent
        line = f"{margin}{self}"
        if not self.parts or (len(line) < WIDTH and not spread):
            return [line]
        lines = [margin + self.head]
        for part in self.parts:
            *start, end = part.lines(indent + 4)
            lines += [*start, f"{end},"]
        return [*lines, margin + self.tail]


def literal(value: Any) -> Code:
    """A string, number, list, tuple or dict as source."""
    if isinstance(value, Mapping):
        return table((key, literal(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        first, last = "[]" if isinstance(value, list) else "()"
        return Code(first, tuple(map(literal, value)), last)
    text = repr(value)
    if isinstance(value, str) and text.startswith("'") and '"' not in text:
        text = f'"{text[1:-1]}"'
    return Code(text)


def table(items: Iterable[tuple[str, Code]]) -> Code:
    """A dict whose values are expressions."""
    return Code("{", tuple(value.labelled(f"{literal(key)}: ") for key, value in items), "}")


def switch_intervals(by_role: Mapping[str, Mapping[str, Value]]) -> dict[str, Value]:
    """The switch interval of each role, in seconds; empty where all have Python's own."""
    usual = SWITCH_INTERVAL.default
    found = {role: values.get(SWITCH_INTERVAL.name, usual) for role, values in by_role.items()}
    return found if {*found.values()} != {usual} else {}


def by_role(values: Mapping[str, object]) -> str:
    """The value of this process's `role`, as source: `4`, or `{"agent": 4, "server": 2}[role]`."""
    first, *others = {*values.values()}
    return f"{literal(values)}[role]" if others else f"{literal(first)}"


def options_call(values: Mapping[str, Value]) -> Code:
    """The call that makes the options object from these values."""
    arguments = tuple(
        literal(value).labelled(f"{PRIVATE_KEYWORDS.get(name, name)}=")
        for name, value in agent_options(values).items()
    )
    return Code("rpc.TensorPipeRpcBackendOptions(", arguments, ")")


def as_python(recommendation: Recommendation, sentence: str) -> str:
    """A module that starts RPC for its importer, and checks itself; `sentence` stands first."""
    ranks = recommendation.ranks
    values = {role: recommendation.values_of(role) for role in recommendation.roles}
    threads = {role: of_role[INTRA_OP_THREADS.name] for role, of_role in values.items()}
    command = f"torchrun --standalone --nproc-per-node {len(ranks)}"
    names = literal([(rank.name, rank.role) for rank in ranks])
    options = table((role, options_call(of_role)) for role, of_role in values.items())
    bound, intervals = recommendation.config.binds, switch_intervals(values)
    seconds = literal(intervals).labelled("SWITCH_INTERVALS = ").lines() if intervals else []
    process = "    bind_cpus(rank, len(RANKS))\n" if bound else ""
    process += "    sys.setswitchinterval(SWITCH_INTERVALS[role])\n" if intervals else ""
    cpus = " CPUs={sorted(os.sched_getaffinity(0))}" if bound else ""
    lines = [
        *_comment(recommendation, sentence, command),
        "",
        *("import os", "import sys", *(BINDING_IMPORTS if bound else ()), ""),
        *("import torch", "import torch.distributed.rpc as rpc", ""),
        "# Name and role of each process, by rank.",
        *names.labelled("RANKS = ").lines(spread=True),
        "# As measured.",
        *literal(threads).labelled("INTRA_OP_THREADS = ").lines(),
        *seconds,
        *options.labelled("OPTIONS = ").lines(spread=True),
        f"SELF_CHECK = {literal(command)}",
        *((BIND_CPUS,) if bound else ("",)),
        "",
    ]
    return "\n".join(lines) + "\n" + _START.replace("{process}", process).replace("{cpus}", cpus)


def _comment(recommendation: Recommendation, sentence: str, self_check: str) -> Iterator[str]:
    environment = recommendation.environment
    kind, which = environment.what
    config = f"trial {recommendation.trial}: {recommendation.config}"
    facts = {
        "study": f"{recommendation.study}, {config}",
        "verdict": recommendation.verdict or "none: chosen by hand",
        "speed-up": _speedup(recommendation),
        "measured": _measured(recommendation),
        "baseline": str(recommendation.baseline),
        kind: which,
        "date": environment.date.isoformat(sep=" ", timespec="seconds"),
        "machine": (
            f"{plural(environment.cpu_count, 'logical CPU')} ({environment.cpu_model}), "
            f"{environment.memory_gb:g} GB, Linux {environment.kernel}"
        ),
        "software": f"torch {environment.torch}, Python {environment.python}",
    }
    yield from _wrapped(sentence, "")
    if recommendation.config.binds:
        yield from _wrapped(ALONE, "")
    yield "#"
    for name, fact in facts.items():
        yield from _wrapped(f"{name + ':':<10}{fact}", " " * 10)
    yield "#"
    yield "# To measure it again:"
    # On one line, to be copied.
    yield f"#   {_printable(recheck_command(recommendation))}"
    yield f"# To see that it runs: {self_check} THIS_FILE"


def _wrapped(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(_printable(text), WIDTH - 2, subsequent_indent=indent,
                              break_long_words=False, break_on_hyphens=False):  # fmt: skip
        yield f"# {line}"


def _printable(text: str) -> str:
    """The text without characters that would end a comment."""
    return "".join(character if character.isprintable() else " " for character in text)


def _speedup(recommendation: Recommendation) -> str:
    speedup = recommendation.speedup
    if recommendation.config == recommendation.baseline:
        return "1: this configuration is the baseline"
    low, high = speedup.ci_low or 0.0, speedup.ci_high or math.inf
    if speedup.estimate is None and (bound := bound_text(low, high)):
        return f"{bound}, baseline time / this time"
    if speedup.estimate is None:
        return UNTOLD if recommendation.challenger.config == recommendation.config else "not known"
    if not is_told(low, high):
        return UNTOLD
    interval = _interval(speedup, recommendation.confidence)
    return f"{three_digits(speedup.estimate)}{interval}, baseline time / this time"


def _measured(recommendation: Recommendation) -> str:
    measured = recommendation.measured
    if measured.value is None:
        return "no world that counts"
    interval = _interval(measured, recommendation.confidence)
    value = f"{three_digits(measured.value)} {measured.unit}"
    return f"{recommendation.objective} {value}{interval}, {plural(measured.worlds, 'world')}"


def _interval(found: Speedup | Measured, confidence: float) -> str:
    low, high = found.ci_low, found.ci_high
    if low is None:
        return ""
    end = "or more" if high is None else f"to {three_digits(high)}"
    return f" ({three_digits(low)} {end}, {percent(confidence)} confidence)"
