"""Python source for a configuration, in the layout of ruff and Black."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.plan.knobs import SWITCH_INTERVAL, Value, agent_options

WIDTH = 88

# PyTorch has no public arguments for these two.
_PRIVATE = {"transports": "_transports", "channels": "_channels"}

ALONE = "cpu_binding is for ranks that have the machine to themselves."
BINDING_IMPORTS = (
    "from contextlib import suppress",
    "from itertools import groupby",
    "from pathlib import Path",
)
# What `tuner.cpus.bind_rank` does, in few lines of the standard library.
BIND_CPUS = '''\
MARK = "RPC_TUNER_CPUS"  # before and after binding, for what this process starts
CPUS = os.sched_getaffinity(0)
if MARK in os.environ:
    before, now = ({*map(int, part.split(","))} for part in os.environ[MARK].split("/"))
    CPUS = before if now == CPUS else CPUS


def bind_cpus(rank: int, world_size: int) -> None:
    """Keep this process to its share of the host's CPUs; no container's quota is read."""

    def split(places, depth):
        return [[*part] for _, part in groupby(places, lambda place: place[:depth])]

    places = []  # NUMA node, first thread of the core, and number of each logical CPU
    for cpu in CPUS:
        here = Path(f"/sys/devices/system/cpu/cpu{cpu}")
        node = [int(each.name[4:]) for each in here.glob("node[0-9]*")]
        core = [each.read_text() for each in here.glob("topology/thread_siblings_list")]
        first = int(core[0].replace("-", ",").split(",")[0]) if core else cpu
        places.append((node, first, cpu))
    torchrun = os.getenv("RANK"), os.getenv("WORLD_SIZE")
    own = os.environ if torchrun == (str(rank), str(world_size)) else {}
    index, ranks = own.get("LOCAL_RANK", rank), own.get("LOCAL_WORLD_SIZE", world_size)
    ranks = min(int(ranks), len(places))  # more ranks take turns
    # Whole nodes, or else cores, or else CPUs: the first that uses most of them.
    for pool, part in (0, 1), (1, 2), (1, 3), (0, 2), (0, 3):
        pools = [split(each, part) for each in split(sorted(places), pool)]
        homes = [each * len(pools) // ranks for each in range(ranks)]
        size = min(len(pools[home]) // homes.count(home) for home in homes)
        shares = [sum((pools[home].pop(0) for _ in range(size)), []) for home in homes]
        size = min(map(len, shares))
        if 2 * size * ranks >= len(places):
            break
    share = [cpu for _, _, cpu in shares[int(index) % ranks][:size]]
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread), share)
    os.environ[MARK] = "/".join(",".join(map(str, cpus)) for cpus in (CPUS, share))
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
    if isinstance(value, list):
        return Code("[", tuple(map(literal, value)), "]")
    if isinstance(value, tuple):
        return Code("(", tuple(map(literal, value)), ")")
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
        literal(value).labelled(f"{_PRIVATE.get(name, name)}=")
        for name, value in agent_options(values).items()
    )
    return Code("rpc.TensorPipeRpcBackendOptions(", arguments, ")")
