"""Reads what the machine does, before and after a world: a few small files of the kernel."""

import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.cpus import cpu_cgroups
from tuner.world.environment import MachineState

# Enough for a mean, and as quick on a machine with hundreds of CPUs.
MOST_FREQUENCIES = 4
_CPUINFO_BYTES = 8192
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_DIGITS = 4
_TOTAL = re.compile(r"^(\w+) .*\btotal=(\d+)", re.MULTILINE)


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

    Args:
        proc: The `/proc` folder.
        sys: The `/sys` folder.
        is_shared: Whether other worlds of this command start and end meanwhile.
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
