"""The machine: what a measurement holds for, and what the machine did beside a world."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from tuner.machine import COMPARED, COMPARED_BOUND, machine_differences, this_machine

DISTURBED_SHARE = 0.1
"""A world is disturbed if others took more than this share of the logical CPUs meanwhile."""


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
        """The differences that make measurements incomparable, each as `label: ours, theirs`.

        Args:
            other: Where the other measurements come from.
            bound: Whether ranks were bound to logical CPUs, so that the topology matters.
        """
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
