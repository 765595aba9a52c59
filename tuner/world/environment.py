"""The machine: what a measurement holds for, and what the machine did beside a world."""

import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any

from tuner.cpus import cpu_cgroups
from tuner.machine import (
    COMPARED,
    COMPARED_BOUND,
    DISTURBED_SHARE,
    machine_differences,
    this_machine,
)
from tuner.plan.frozen_model import FrozenModel

# Enough for a mean, and as quick on a machine with hundreds of CPUs.
MOST_FREQUENCIES = 4
_CPUINFO_BYTES = 8192
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_DIGITS = 4
_TOTAL = re.compile(r"^(\w+) .*\btotal=(\d+)", re.MULTILINE)
_COUNT = re.compile(r"^(\w+) (\d+)$", re.MULTILINE)
_CPU_MHZ = re.compile(rb"^cpu MHz\s*:(.*)\n", re.MULTILINE)


class GroupFacts(FrozenModel, use_attribute_docstrings=True):
    """What one of several groups measures on."""

    name: str
    """`CPUs 0-15`, or the names of its hosts."""
    torch: str
    cpu_model: str
    cpu_count: int
    """The logical CPUs that a world of it may use."""
    memory_gb: float
    kernel: str
    pinned: bool = True
    """Whether its worlds are kept to these CPUs of a larger machine."""
    interface_mbps: int | None = None
    """The speed of the interface between its hosts; null for loopback, or where none is told."""

    @classmethod
    def of(cls, name: str, hosts: Sequence["Environment"], **facts: object) -> "GroupFacts":
        """Those of a group of hosts; what is given beside them holds instead."""
        sums = {
            "cpu_count": sum(host.cpu_count for host in hosts),
            "memory_gb": round(sum(host.memory_gb for host in hosts), 1),
        }
        texts = {
            fact: " and ".join(sorted({getattr(host, fact) for host in hosts}))
            for fact in ("torch", "cpu_model", "kernel")
        }
        return cls.model_validate({"name": name, **texts, **sums, **facts})

    def differences(self, other: "GroupFacts") -> list[str]:
        """What makes two groups unlike, each as `label: ours, theirs`."""
        return machine_differences(self.model_dump(), other.model_dump(), _ALIKE)


_ALIKE = COMPARED | {
    "memory_gb": "GB of memory",
    "kernel": "kernel",
    "interface_mbps": "Mb/s of the interface",
}
"""What groups should have in common, and what people call it."""


class Environment(FrozenModel):
    """What a study's numbers depend on beside its plan."""

    torch: str
    python: str
    cpu_model: str
    cpu_count: int
    """Logical CPUs that this process may use, by its affinity and its container's quota."""
    memory_gb: float
    kernel: str
    numa_nodes: int | None = None
    """Those that this process may use; None where that was not kept."""
    threads_per_core: int | None = None
    """Of one core, those that this process may use, at most; None where that was not kept."""
    own_network: bool | None = None
    """Whether no other process reached the network of the worlds; None where that was not kept."""
    groups: tuple[GroupFacts, ...] = ()
    """What each of several groups measures on, in their order; empty where there are none."""

    @classmethod
    def here(cls) -> "Environment":
        """The environment of this process; torch is not imported for it."""
        return cls(**this_machine())

    def differences(self, other: "Environment", *, bound: bool = False) -> list[str]:
        """What makes measurements incomparable, each as `label: ours, theirs`; for bound ranks also
        what differs in the topology."""
        compared = COMPARED_BOUND if bound else COMPARED
        pairs = zip(self.groups, other.groups, strict=False)
        return machine_differences(self.model_dump(), other.model_dump(), compared) + [
            f"group {number}: {difference}"
            for number, (ours, theirs) in enumerate(pairs, start=1)
            for difference in ours.differences(theirs)
        ]

    @property
    def unlike_groups(self) -> list[str]:
        """How other groups differ from the first, each as `group 2: CPU model: ours, theirs`."""
        return [
            f"group {number}: {difference}"
            for number, group in enumerate(self.groups[1:], start=2)
            for difference in group.differences(self.groups[0])
        ]


class MachineState(FrozenModel):
    """What the machine did from the launch of a world to its end; None where it does not say."""

    seconds: float
    cpus: int
    """The logical CPUs that the world could run on."""
    others_cpus: float | None = None
    """CPU seconds per second that other programs used: all but the command, its world and
    interrupts."""
    stolen_cpus: float | None = None
    """CPU seconds per second that the hypervisor gave to other virtual machines."""
    pressure_some: float | None = None
    """Share of the time in which some thread waited for a CPU, those of the world included."""
    pressure_full: float | None = None
    """Share of the time in which no thread that wanted a CPU had one."""
    mhz: float | None = None
    """Mean frequency of a few of the CPUs, before and after the world."""
    load: float | None = None
    """Load average over the minute before the world."""
    throttled_s: float | None = None
    """Seconds for which a CPU quota stopped the cgroup, summed over its CPUs."""
    throttled_periods: int | None = None
    """Periods of the quota in which that happened."""

    @property
    def taken_share(self) -> float | None:
        """Share of the logical CPUs that other programs and other virtual machines took."""
        if self.others_cpus is None:
            return None
        return (self.others_cpus + (self.stolen_cpus or 0.0)) / self.cpus

    @property
    def is_disturbed(self) -> bool:
        """Whether others took so much that the world's times may not be its own."""
        return (self.taken_share or 0.0) > DISTURBED_SHARE


def of_all_hosts(states: Sequence[MachineState]) -> MachineState | None:
    """What the hosts of one world did, as one machine; None if there are none."""
    if len(states) <= 1:
        return next(iter(states), None)

    def known(name: str) -> list[Any]:
        return [value for state in states if (value := getattr(state, name)) is not None]

    sums = ("others_cpus", "stolen_cpus", "load", "throttled_s", "throttled_periods")
    mhz = known("mhz")
    return MachineState(
        seconds=max(state.seconds for state in states),
        cpus=sum(state.cpus for state in states),
        # The host under the most pressure is the one that the others wait for.
        pressure_some=max(known("pressure_some"), default=None),
        pressure_full=max(known("pressure_full"), default=None),
        mhz=fmean(mhz) if mhz else None,
        # If one is unknown, the sum is.
        **{name: sum(of) for name in sums if len(of := known(name)) == len(states)},
    )


class MachineReader:
    """Reads the machine, in less than a millisecond; nothing that cannot be read is an error. It is
    shared where other worlds of this command start and end meanwhile."""

    def __init__(
        self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), *, is_shared: bool = False
    ) -> None:
        self._proc = proc
        self._is_shared = is_shared
        self._usable = sorted(os.sched_getaffinity(0))
        self._cgroups = list(cpu_cgroups(proc / "self"))
        folder = sys / "devices/system/cpu"
        frequencies = (folder / f"cpu{cpu}/cpufreq/scaling_cur_freq" for cpu in self._usable)
        self._frequencies = [path for path in frequencies if path.exists()][:MOST_FREQUENCIES]

    def watch(self) -> Callable[[], MachineState]:
        """What returns what the machine did from now on."""
        before = self._read()
        return lambda: _between(before, self._read())

    def _read(self) -> Mapping[str, float]:
        """The kernel's counters now, without those that it does not give: of the CPUs that may be
        used, `cpus`, and in CPU seconds so far `idle_s`, `interrupts_s` and `stolen_s`; `own_s`,
        those of this process and of its descendants, ended ones included; `some` and `full`,
        seconds under CPU pressure; `throttled_periods` and `throttled_s` of a CPU quota."""
        found = {"at_s": time.monotonic(), **self._cpu_times(), **self._own_s()}
        found |= self._pressure_s() | self._throttled()
        if mhz := self._mhz():
            found["mhz"] = fmean(mhz)
        if load := _text(self._proc / "loadavg").split():
            found["load"] = float(load[0])
        return found

    def _cpu_times(self) -> dict[str, float]:
        names = {f"cpu{cpu}" for cpu in self._usable}
        lines = [line.split() for line in _text(self._proc / "stat").splitlines()]
        # user nice system idle iowait irq softirq steal; guests are in user and nice.
        rows = [[int(field) for field in line[1:9]] for line in lines if line and line[0] in names]
        if not rows or any(len(row) < 8 for row in rows):
            return {}
        _, _, _, idle, io_wait, irq, soft_irq, steal = (
            sum(column) / _TICKS_PER_S for column in zip(*rows, strict=True)
        )
        times = {"idle_s": idle + io_wait, "interrupts_s": irq + soft_irq, "stolen_s": steal}
        return {"cpus": len(rows), **times}

    def _own_s(self) -> dict[str, float]:
        """Nothing where the kernel does not list children: a forkserver's are the world."""
        # A rank of another world that ends between two of the files is in neither of them; the
        # next time it is in the first one.
        found = [self._own_once_s() for _ in range(2 if self._is_shared else 1)]
        known = [seconds for seconds in found if seconds is not None]
        return {"own_s": max(known)} if len(known) == len(found) else {}

    def _own_once_s(self) -> float | None:
        total, ahead = 0.0, [os.getpid()]
        while ahead:
            process = self._proc / str(ahead.pop())
            # Behind the name in parentheses: utime stime cutime cstime are fields 14 to 17.
            fields = _text(process / "stat").rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / _TICKS_PER_S
            try:
                for task in (process / "task").iterdir():
                    ahead += map(int, (task / "children").read_text().split())
            except OSError:
                # Either it has just ended, or this kernel does not list children.
                if process.exists():
                    return None
        return total

    def _pressure_s(self) -> dict[str, float]:
        """Of the machine, or else of the innermost cgroup that has it."""
        files = [self._proc / "pressure/cpu", *(each / "cpu.pressure" for each in self._cgroups)]
        each_file = ({kind: int(us) / 1e6 for kind, us in _TOTAL.findall(_text(f))} for f in files)
        return next(filter(None, each_file), {})

    def _throttled(self) -> dict[str, float]:
        """Of the cgroup and its ancestors: the quota of each stops what is below it."""
        total: Counter[str] = Counter()
        for cgroup in self._cgroups:
            for name, count in _COUNT.findall(_text(cgroup / "cpu.stat")):
                total[name] += int(count)
        if "nr_throttled" not in total:
            return {}
        # Version 2 counts microseconds, version 1 nanoseconds.
        seconds = total["throttled_usec"] / 1e6 + total["throttled_time"] / 1e9
        return {"throttled_periods": total["nr_throttled"], "throttled_s": seconds}

    def _mhz(self) -> list[float]:
        if known := [int(text) / 1e3 for path in self._frequencies if (text := _text(path))]:
            return known
        with suppress(OSError), (self._proc / "cpuinfo").open("rb") as file:
            found = _CPU_MHZ.findall(file.read(_CPUINFO_BYTES))
            return [float(text) for text in found[:MOST_FREQUENCIES]]
        return []


def _between(before: Mapping[str, float], after: Mapping[str, float]) -> MachineState:
    spent = {name: after[name] - then for name, then in before.items() if name in after}
    seconds = max(1e-9, spent["at_s"])

    def rate(name: str, most: float = math.inf) -> float | None:
        # Counters in ticks can make less than nothing.
        value = spent.get(name)
        return None if value is None else round(min(most, max(0.0, value) / seconds), _DIGITS)

    cpus = len(os.sched_getaffinity(0))
    if spent.get("cpus") != 0:
        spent.pop("stolen_s", None)
    else:
        cpus = int(after["cpus"])
        if "own_s" in spent:
            # Whose the interrupts are is unknown.
            known_s = sum(max(0.0, spent[name]) for name in ("idle_s", "interrupts_s", "stolen_s"))
            spent["others_s"] = seconds * cpus - known_s - spent["own_s"]
    mhz = [reading["mhz"] for reading in (before, after) if "mhz" in reading]
    return MachineState(
        seconds=round(seconds, _DIGITS), cpus=cpus, load=before.get("load"),
        others_cpus=rate("others_s"), stolen_cpus=rate("stolen_s"),
        pressure_some=rate("some", 1.0), pressure_full=rate("full", 1.0),
        mhz=round(fmean(mhz), 1) if mhz else None,
        throttled_s=round(spent["throttled_s"], _DIGITS) if "throttled_s" in spent else None,
        throttled_periods=int(spent["throttled_periods"]) if "throttled_s" in spent else None,
    )  # fmt: skip


def _text(path: Path) -> str:
    """The content of a file; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
