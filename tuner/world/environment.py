"""The machine: what a measurement holds for, and what the machine did beside a world."""

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tuner.cpus import cpu_cgroups
from tuner.machine import COMPARED, COMPARED_BOUND, machine_differences, this_machine

DISTURBED_SHARE = 0.1
"""A world is disturbed if others took more than this share of the logical CPUs meanwhile."""
# Enough for a mean, and as quick on a machine with hundreds of CPUs.
MOST_FREQUENCIES = 4
_CPUINFO_BYTES = 8192
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_DIGITS = 4
_TOTAL = re.compile(r"^(\w+) .*\btotal=(\d+)", re.MULTILINE)


class GroupFacts(BaseModel):
    """What one of several groups measures on."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

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
        texts = {
            fact: " and ".join(sorted({getattr(host, fact) for host in hosts}))
            for fact in ("torch", "cpu_model", "kernel")
        }
        cpus = sum(host.cpu_count for host in hosts)
        memory_gb = round(sum(host.memory_gb for host in hosts), 1)
        return cls.model_validate(
            {"name": name, **texts, "cpu_count": cpus, "memory_gb": memory_gb, **facts}
        )

    def differences(self, other: "GroupFacts") -> list[str]:
        """What makes two groups unlike, each as `label: ours, theirs`."""
        return machine_differences(self.model_dump(), other.model_dump(), _ALIKE)


_ALIKE = {
    **COMPARED,
    "memory_gb": "GB of memory",
    "kernel": "kernel",
    "interface_mbps": "Mb/s of the interface",
}
"""What groups should have in common, and what people call it."""


class Environment(BaseModel):
    """What a study's numbers depend on beside its plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        """The differences that make measurements incomparable, each as `label: ours, theirs`; of
        bound ranks also those of the topology."""
        compared = COMPARED_BOUND if bound else COMPARED
        found = machine_differences(self.model_dump(), other.model_dump(), compared)
        pairs = zip(self.groups, other.groups, strict=False)
        for number, (ours, theirs) in enumerate(pairs, start=1):
            found += [f"group {number}: {each}" for each in ours.differences(theirs)]
        return found

    @property
    def unlike_groups(self) -> list[str]:
        """How other groups differ from the first one, each as `group 2: CPU model: ours, theirs`;
        empty where all are alike."""
        return [
            f"group {number}: {difference}"
            for number, each in enumerate(self.groups[1:], start=2)
            for difference in each.differences(self.groups[0])
        ]


class MachineState(BaseModel):
    """What the machine did from the launch of a world to its end; None where it does not say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        values = [getattr(each, name) for each in states]
        return [value for value in values if value is not None]

    sums = ("others_cpus", "stolen_cpus", "load", "throttled_s", "throttled_periods")
    mhz = known("mhz")
    return MachineState(
        seconds=max(each.seconds for each in states),
        cpus=sum(each.cpus for each in states),
        # The host under the most pressure is the one that the others wait for.
        pressure_some=max(known("pressure_some"), default=None),
        pressure_full=max(known("pressure_full"), default=None),
        mhz=sum(mhz) / len(mhz) if mhz else None,
        # If one is unknown, the sum is.
        **{name: sum(of) for name in sums if len(of := known(name)) == len(states)},
    )


@dataclass(frozen=True, kw_only=True)
class MachineReading:
    """The kernel's counters at one moment; None, or nothing, where it does not give one."""

    at_s: float
    cpu_s: tuple[float, float, float] | None
    """CPU seconds of all CPUs since the machine was started: idle, in interrupts, stolen."""
    cpus: int
    own_s: float | None
    """CPU seconds of this process and of its descendants, those that have ended included."""
    pressure_s: dict[str, float]
    """Seconds under CPU pressure so far: `some`, `full`."""
    throttled: tuple[int, float] | None
    """How a CPU quota has stopped the cgroup so far: in how many periods, for how many seconds."""
    mhz: float | None
    load: float | None


class MachineReader:
    """Reads the machine, in less than a millisecond; nothing that cannot be read is an error.

    It is shared where other worlds of this command start and end meanwhile.
    """

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

    def read(self) -> MachineReading:
        """The counters now."""
        at_s, rows, own_s = time.monotonic(), self._cpu_rows(), self._own_s()
        # user nice system idle iowait irq softirq steal; guests are in user and nice.
        column = [sum(each) / _TICKS_PER_S for each in zip(*rows, strict=True)]
        return MachineReading(
            at_s=at_s,
            cpu_s=(column[3] + column[4], column[5] + column[6], column[7]) if rows else None,
            cpus=len(rows),
            own_s=own_s,
            pressure_s=self._pressure_s(),
            throttled=self._throttled(),
            mhz=self._mhz(),
            load=next(map(float, _text(self._proc / "loadavg").split()[:1]), None),
        )

    def _cpu_rows(self) -> list[list[int]]:
        """A row for each CPU that may be used; none if the kernel counts less than all of it."""
        names = {f"cpu{cpu}" for cpu in self._usable}
        lines = [line.split() for line in _text(self._proc / "stat").splitlines()]
        rows = [[int(field) for field in line[1:9]] for line in lines if line and line[0] in names]
        return [] if any(len(row) < 8 for row in rows) else rows

    def _own_s(self) -> float | None:
        """None where the kernel does not list children: a forkserver's are the world."""
        first = self._own_once_s()
        if not self._is_shared or first is None:
            return first
        # A rank of another world that ends between two of the files is in neither of them, and its
        # CPU time would look like that of others; the next time it is in the first one.
        again = self._own_once_s()
        return None if again is None else max(first, again)

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

    def _throttled(self) -> tuple[int, float] | None:
        """Of the cgroup and its ancestors: the quota of each stops what is below it."""
        periods, seconds = [], 0.0
        for cgroup in self._cgroups:
            pairs = (line.split() for line in _text(cgroup / "cpu.stat").splitlines())
            counts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
            if "nr_throttled" in counts:
                periods.append(counts["nr_throttled"])
                # Version 2 counts microseconds, version 1 nanoseconds.
                seconds += counts.get("throttled_usec", 0) / 1e6
                seconds += counts.get("throttled_time", 0) / 1e9
        return (sum(periods), seconds) if periods else None

    def _mhz(self) -> float | None:
        known = [int(text) / 1e3 for path in self._frequencies if (text := _text(path).strip())]
        if not known:
            with suppress(OSError), (self._proc / "cpuinfo").open("rb") as file:
                lines = file.read(_CPUINFO_BYTES).decode(errors="replace").splitlines()[:-1]
                found = [line.partition(":")[2] for line in lines if line.startswith("cpu MHz")]
                known = [float(text) for text in found[:MOST_FREQUENCIES]]
        return sum(known) / len(known) if known else None


def machine_between(before: MachineReading, after: MachineReading) -> MachineState:
    """What the machine did between two readings."""
    seconds = max(1e-9, after.at_s - before.at_s)
    cpus, others, stolen = _taken(before, after, seconds)
    pressure = {
        kind: round(min(1.0, (after.pressure_s[kind] - then_s) / seconds), _DIGITS)
        for kind, then_s in before.pressure_s.items()
        if kind in after.pressure_s
    }
    periods = throttled_s = None
    if before.throttled is not None and after.throttled is not None:
        periods = after.throttled[0] - before.throttled[0]
        throttled_s = round(after.throttled[1] - before.throttled[1], _DIGITS)
    known_mhz = [reading.mhz for reading in (before, after) if reading.mhz is not None]
    return MachineState(
        seconds=round(seconds, _DIGITS),
        cpus=cpus,
        others_cpus=others,
        stolen_cpus=stolen,
        pressure_some=pressure.get("some"),
        pressure_full=pressure.get("full"),
        mhz=round(sum(known_mhz) / len(known_mhz), 1) if known_mhz else None,
        load=before.load,
        throttled_s=throttled_s,
        throttled_periods=periods,
    )


def _taken(
    before: MachineReading, after: MachineReading, seconds: float
) -> tuple[int, float | None, float | None]:
    """How many CPUs there are, and how many of them other programs and the hypervisor took."""
    if before.cpu_s is None or after.cpu_s is None or before.cpus != after.cpus:
        return len(os.sched_getaffinity(0)), None, None
    # Counters in ticks can make less than nothing.
    pairs = zip(before.cpu_s, after.cpu_s, strict=True)
    idle_s, interrupts_s, stolen_s = (max(0.0, now - then) for then, now in pairs)
    stolen = round(stolen_s / seconds, _DIGITS)
    if before.own_s is None or after.own_s is None:
        return after.cpus, None, stolen
    # Whose the interrupts are is unknown.
    used_s = seconds * after.cpus - idle_s - interrupts_s - stolen_s
    others_s = max(0.0, used_s - (after.own_s - before.own_s))
    return after.cpus, round(others_s / seconds, _DIGITS), stolen


def _text(path: Path) -> str:
    """The content of a file; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
