"""The machine beside a world, told from fake `/proc` and `/sys` folders."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.world.environment import MachineReader, MachineState, of_all_hosts

PID, FORKSERVER, RANK = 100, 200, 300
TICKS = os.sysconf("SC_CLK_TCK")


class FakeMachine:
    """A `/proc` and a `/sys` of two logical CPUs; this process has a forkserver with one rank."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.sys, self.now_s = folder / "proc", folder / "sys", 0.0
        self.cpu_s([0.0] * 8, [0.0] * 8)
        for pid, children in ((PID, [FORKSERVER]), (FORKSERVER, [RANK]), (RANK, [])):
            self.process(pid, 0.0, children=children)
        self.write("proc/loadavg", "1.50 0.70 0.30 2/400 9999")
        self.write("proc/self/cgroup", "0::/")
        mount = f"30 24 0:26 / {folder / 'cgroup'} rw shared:4 - cgroup2 cgroup rw"
        self.write("proc/self/mountinfo", mount)

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


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    fake = FakeMachine(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(os, "getpid", lambda: PID)
    monkeypatch.setattr(time, "monotonic", lambda: fake.now_s)
    return fake


def between(machine: FakeMachine, seconds: float, change: Callable[[], None]) -> MachineState:
    """What was read of a change that took so long."""
    machine_since = MachineReader(machine.proc, machine.sys).watch()
    machine.now_s += seconds
    change()
    return machine_since()


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
    machine_since = MachineReader(machine.proc, machine.sys, is_shared=True).watch()
    machine.now_s = 1.0
    machine.cpu_s([0.9, 0, 0.1, 0, 0, 0, 0, 0], [0.9, 0, 0.1, 0, 0, 0, 0, 0])
    machine.process(FORKSERVER, 0, children=[])
    ended_s = iter((0.0, 1.9))

    def reaped() -> int:
        machine.process(FORKSERVER, 0, ended_s=next(ended_s), children=[])
        return PID

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", reaped)
        assert machine_since().others_cpus == pytest.approx(0.1, abs=0.02)


def test_a_tenth_of_the_cpus_disturbs() -> None:
    for others, stolen, is_disturbed in [(0.19, 0.0, False), (0.21, 0.0, True), (0.15, 0.1, True)]:
        state = MachineState(seconds=1.0, cpus=2, others_cpus=others, stolen_cpus=stolen)
        assert state.is_disturbed is is_disturbed


def test_cpus_that_we_may_not_use_do_not_count(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1})
    busy = ([1.0, 0, 0, 0, 0, 0, 0, 0], [0.0, 0, 0, 1, 0, 0, 0, 0])
    state = between(machine, 1.0, lambda: machine.cpu_s(*busy))
    assert (state.cpus, state.others_cpus) == (1, 0.0)


PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 total={}"
QUOTA = "nr_periods {}\nnr_throttled {}\nthrottled_"
CPUINFO = "cpu MHz\t\t: 2000.5\nflags: x\ncpu MHz : {}.5\nflags: {}"


@pytest.mark.parametrize(
    ("file", "text", "before", "after", "told"),
    [
        # Shares of the time: of the machine, or else of the cgroup.
        ("proc/pressure/cpu", PRESSURE, (10**6, 0), (2 * 10**6, 400_000), (0.25, 0.1)),
        ("cgroup/cpu.pressure", PRESSURE, (10**6, 0), (2 * 10**6, 400_000), (0.25, 0.1)),
        # A quota of either version.
        ("cgroup/cpu.stat", QUOTA + "usec {}", (10, 2, 10**6), (20, 5, 3 * 10**6), (2.0, 3)),
        ("cgroup/cpu.stat", QUOTA + "time {}", (10, 2, 10**9), (20, 5, 3 * 10**9), (2.0, 3)),
        ("proc/cpuinfo", CPUINFO, (3000, "y"), (3000, "y"), (2500.5,)),
        ("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "{}", (10**6,), (2 * 10**6,),
         (1500.0,)),
    ],
)  # fmt: skip
def test_pressure_quota_and_frequency(
    machine: FakeMachine, file: str, text: str, before: Any, after: Any, told: tuple[float, ...]
) -> None:
    machine.write(file, text.format(*before))
    state = between(machine, 4.0, lambda: machine.write(file, text.format(*after)))
    found = state.model_dump(include={"pressure_some", "pressure_full", "throttled_s",
                                      "throttled_periods", "mhz"}, exclude_none=True)  # fmt: skip
    assert tuple(found.values()) == told


def test_where_nothing_is_told_nothing_is_known(machine: FakeMachine, tmp_path: Path) -> None:
    state = MachineReader(tmp_path / "nothing", tmp_path / "sys").watch()()
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
