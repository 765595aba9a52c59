"""The machine beside a world, told from fake `/proc` and `/sys` folders."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.world.environment import (
    MachineReader,
    MachineReading,
    MachineState,
    machine_between,
    of_all_hosts,
)

PID, FORKSERVER, RANK = 100, 200, 300
TICKS = os.sysconf("SC_CLK_TCK")


class FakeMachine:
    """A `/proc` and a `/sys` of two logical CPUs; this process has a forkserver with one rank."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.sys = folder / "proc", folder / "sys"
        self.cgroup = folder / "cgroup"
        self.now_s = 0.0
        self.cpu_s([0.0] * 8, [0.0] * 8)
        for pid, children in ((PID, [FORKSERVER]), (FORKSERVER, [RANK]), (RANK, [])):
            self.process(pid, 0.0, children=children)
        self.write("proc/loadavg", "1.50 0.70 0.30 2/400 9999")
        self.write("proc/self/cgroup", "0::/")
        line = f"30 24 0:26 / {self.cgroup} rw shared:4 - cgroup2 cgroup rw"
        self.write("proc/self/mountinfo", line)

    def write(self, path: str, text: str) -> None:
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def cpu_s(self, *cpus: list[float]) -> None:
        """CPU seconds: user, nice, system, idle, iowait, irq, softirq and steal of each CPU."""
        ticks = [" ".join(str(round(value * TICKS)) for value in cpu) for cpu in cpus]
        lines = [f"cpu{number} {text} 0 0" for number, text in enumerate(ticks)]
        self.write("proc/stat", "\n".join(["cpu 1 2 3 4 5 6 7 8 9 10", *lines, "intr 1 2 3"]))

    def process(
        self, pid: int, own_s: float, *, ended_s: float = 0.0, children: list[int] | None = None
    ) -> None:
        """A process, the CPU seconds of its children that have ended, and those that run."""
        fields = ["0"] * 10 + [str(round(own_s * TICKS)), "0", str(round(ended_s * TICKS)), "0"]
        self.write(f"proc/{pid}/stat", f"{pid} (a) (name) S {' '.join(fields)} 20 0 1")
        told = " ".join(map(str, children or []))
        self.write(f"proc/{pid}/task/{pid}/children", told)

    def read(self) -> MachineReading:
        return MachineReader(self.proc, self.sys).read()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    fake = FakeMachine(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(os, "getpid", lambda: PID)
    monkeypatch.setattr(time, "monotonic", lambda: fake.now_s)
    return fake


def between(machine: FakeMachine, seconds: float, change: Callable[[], None]) -> MachineState:
    """What was read of a change that took so long."""
    before = machine.read()
    machine.now_s += seconds
    change()
    return machine_between(before, machine.read())


def test_what_is_neither_idle_nor_ours_is_of_others(machine: FakeMachine) -> None:
    def change() -> None:
        # Of 4 CPU seconds 1 was idle or waited for a disk, 0.2 were interrupts, 0.4 were stolen.
        machine.cpu_s([1, 0, 0.4, 0.2, 0.1, 0.05, 0.05, 0.2], [0.9, 0, 0.1, 0.7, 0, 0, 0.1, 0.2])
        machine.process(PID, 0.1, ended_s=0.2, children=[FORKSERVER])
        machine.process(FORKSERVER, 0.1, ended_s=0.6, children=[RANK])
        machine.process(RANK, 0.4)

    state = between(machine, 2.0, change)
    assert (state.seconds, state.cpus) == (2.0, 2)
    assert state.others_cpus == pytest.approx((4 - 1 - 0.2 - 0.4 - 1.4) / 2, abs=1e-3)
    assert state.stolen_cpus == pytest.approx(0.2, abs=1e-3)
    assert state.load == 1.5
    assert state.is_disturbed
    assert MachineState.model_validate_json(state.model_dump_json()) == state


def test_a_world_alone_is_not_disturbed(machine: FakeMachine) -> None:
    def change() -> None:
        machine.cpu_s([0.9, 0, 0.1, 0, 0, 0, 0, 0], [0.5, 0, 0, 0.5, 0, 0, 0, 0])
        # A tick more than there was: the counters of processes and of CPUs are not one.
        machine.process(FORKSERVER, 0, ended_s=1.51, children=[])

    state = between(machine, 1.0, change)
    assert (state.others_cpus, state.stolen_cpus) == (0.0, 0.0)
    assert not state.is_disturbed


def test_a_rank_of_another_group_that_ends_meanwhile_is_ours(machine: FakeMachine) -> None:
    """It is read in neither file of the first time: not among children, and not yet reaped."""
    reader = MachineReader(machine.proc, machine.sys, is_shared=True)
    before = reader.read()
    machine.now_s = 1.0
    machine.cpu_s([0.9, 0, 0.1, 0, 0, 0, 0, 0], [0.9, 0, 0.1, 0, 0, 0, 0, 0])
    machine.process(FORKSERVER, 0, children=[])
    ended_s = iter((0.0, 1.9))

    def reaped() -> int:
        machine.process(FORKSERVER, 0, ended_s=next(ended_s), children=[])
        return PID

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", reaped)
        state = machine_between(before, reader.read())
    assert state.others_cpus == pytest.approx(0.1, abs=0.02)
    assert not state.is_disturbed


def test_a_tenth_of_the_cpus_disturbs() -> None:
    cases = [(0.19, 0.0, False), (0.21, 0.0, True), (0.15, 0.1, True), (None, None, False)]
    for others, stolen, is_disturbed in cases:
        state = MachineState(seconds=1.0, cpus=2, others_cpus=others, stolen_cpus=stolen)
        assert state.is_disturbed is is_disturbed


def test_cpus_that_we_may_not_use_do_not_count(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1})
    busy = ([1.0, 0, 0, 0, 0, 0, 0, 0], [0.0, 0, 0, 1, 0, 0, 0, 0])
    state = between(machine, 1.0, lambda: machine.cpu_s(*busy))
    assert (state.cpus, state.others_cpus) == (1, 0.0)


@pytest.mark.parametrize("file", ["proc/pressure/cpu", "cgroup/cpu.pressure"])
def test_pressure_is_a_share_of_the_time(machine: FakeMachine, file: str) -> None:
    """Of the machine, or else of the cgroup."""
    text = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 total={}"
    machine.write(file, text.format(1_000_000, 0))
    state = between(machine, 4.0, lambda: machine.write(file, text.format(2_000_000, 400_000)))
    assert (state.pressure_some, state.pressure_full) == (0.25, 0.1)


@pytest.mark.parametrize(
    ("key", "per_second"), [("throttled_usec", 10**6), ("throttled_time", 10**9)]
)
def test_a_quota_of_either_version_throttles(
    machine: FakeMachine, key: str, per_second: int
) -> None:
    text = "nr_periods {}\nnr_throttled {}\n" + key + " {}"
    machine.write("cgroup/cpu.stat", text.format(10, 2, per_second))
    after = text.format(20, 5, 3 * per_second)
    state = between(machine, 1.0, lambda: machine.write("cgroup/cpu.stat", after))
    assert (state.throttled_periods, state.throttled_s) == (3, 2.0)


def test_the_frequency_is_that_of_the_governor_or_of_cpuinfo(machine: FakeMachine) -> None:
    machine.write("proc/cpuinfo", "cpu MHz\t\t: 2000.5\nflags: x\ncpu MHz : 3000.5\nflags: y")
    assert machine.read()["mhz"] == 2500.5
    for cpu, khz in enumerate((1_000_000, 1_400_000)):
        machine.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", str(khz))
    assert machine.read()["mhz"] == 1200.0


def test_where_nothing_is_told_nothing_is_known(machine: FakeMachine, tmp_path: Path) -> None:
    reader = MachineReader(tmp_path / "nothing", tmp_path / "sys")
    state = machine_between(reader.read(), reader.read())
    assert state.cpus == len(os.sched_getaffinity(0))
    assert {*state.model_dump(exclude={"seconds", "cpus"}).values()} == {None}
    assert not state.is_disturbed
    # Without a list of children it is not known what is ours.
    (machine.proc / f"{FORKSERVER}/task/{FORKSERVER}/children").unlink()
    state = between(machine, 1.0, lambda: None)
    assert (state.others_cpus, state.stolen_cpus) == (None, 0.0)


def test_several_hosts_are_told_as_one_machine() -> None:
    one = MachineState(seconds=2.0, cpus=2, others_cpus=0.5, pressure_some=0.1, mhz=1000.0, load=1)
    two = MachineState(seconds=3.0, cpus=4, others_cpus=0.25, pressure_some=0.3, mhz=2000.0)
    assert of_all_hosts([]) is None
    assert of_all_hosts([one]) is one
    both = MachineState(seconds=3.0, cpus=6, others_cpus=0.75, pressure_some=0.3, mhz=1500.0)
    assert of_all_hosts([one, two]) == both
