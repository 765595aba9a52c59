"""What the machine did beside a world: how much CPU others took, its frequency, its load."""

from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

DISTURBED_SHARE = 0.1
"""A world is disturbed if others took more than this share of the logical CPUs meanwhile."""


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
    mhz = _known(each.mhz for each in states)
    return MachineState(
        seconds=max(each.seconds for each in states),
        cpus=sum(each.cpus for each in states),
        others_cpus=_sum(each.others_cpus for each in states),
        stolen_cpus=_sum(each.stolen_cpus for each in states),
        # The host under the most pressure is the one that the others wait for.
        pressure_some=max(_known(each.pressure_some for each in states), default=None),
        pressure_full=max(_known(each.pressure_full for each in states), default=None),
        mhz=sum(mhz) / len(mhz) if mhz else None,
        load=_sum(each.load for each in states),
        throttled_s=_sum(each.throttled_s for each in states),
        throttled_periods=_whole_sum(each.throttled_periods for each in states),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _sum(values: Iterable[float | None]) -> float | None:
    """None if one is unknown, since the sum is then."""
    found = list(values)
    known = _known(found)
    return sum(known) if len(known) == len(found) else None


def _whole_sum(values: Iterable[int | None]) -> int | None:
    total = _sum(values)
    return None if total is None else int(total)
