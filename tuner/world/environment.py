"""The machine and the software that a measurement holds for."""

from pydantic import BaseModel, ConfigDict

from tuner.machine import COMPARED, COMPARED_BOUND, machine_differences, this_machine


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
    """The speed of the interface between its hosts; null for loopback, or where none is known."""

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
