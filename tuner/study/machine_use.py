"""How busy the machine was while a study was measured, from the worlds that count."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tuner.world.environment import DISTURBED_SHARE
from tuner.world.measurement import Measurement

BUSY_SHARE = 0.1
"""The machine was busy if more than this share of the worlds was disturbed."""


@dataclass(frozen=True, kw_only=True)
class MachineUse:
    """What other programs and the hypervisor took of the machine; means over worlds."""

    worlds: int
    """The worlds that count, and of which it is known."""
    disturbed: int
    """Those of them in which others took more than a tenth of the logical CPUs."""
    cpus: int
    others_cpus: float
    """CPU seconds per second that other programs used."""
    stolen_cpus: float
    """CPU seconds per second that the hypervisor gave to other virtual machines."""
    throttled: int
    """The worlds that a CPU quota stopped for a while."""
    repeated_blocks: int
    """The disturbed blocks that were measured again; their worlds do not count."""
    pressure_some: float | None
    """Share of the time in which some thread waited for a CPU, those of the worlds included."""
    mhz: float | None
    load: float | None
    """Load average when a world began, those of the study included."""

    @classmethod
    def of(cls, worlds: Iterable[Measurement], repeated_blocks: int = 0) -> Self | None:
        """The use of the machine by others during these worlds; None where it is not known."""
        states = [
            world.machine
            for world in worlds
            if world.machine is not None and world.machine.others_cpus is not None
        ]
        if not states:
            return None
        return cls(
            worlds=len(states),
            disturbed=sum(state.is_disturbed for state in states),
            cpus=states[-1].cpus,
            others_cpus=_mean([state.others_cpus for state in states]) or 0.0,
            stolen_cpus=_mean([state.stolen_cpus for state in states]) or 0.0,
            throttled=sum(bool(state.throttled_periods) for state in states),
            repeated_blocks=repeated_blocks,
            pressure_some=_mean([state.pressure_some for state in states]),
            mhz=_mean([state.mhz for state in states]),
            load=_mean([state.load for state in states]),
        )

    @property
    def is_busy(self) -> bool:
        """Whether so many worlds were disturbed that the study's intervals suffer."""
        return self.disturbed > BUSY_SHARE * self.worlds

    @property
    def taken_share(self) -> float:
        """Share of the logical CPUs that others took."""
        return (self.others_cpus + self.stolen_cpus) / self.cpus

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {
            "busy": self.is_busy,
            "worlds": self.worlds,
            "disturbed_worlds": self.disturbed,
            "disturbed_from_share": DISTURBED_SHARE,
            "cpus": self.cpus,
            "others_cpus": self.others_cpus,
            "stolen_cpus": self.stolen_cpus,
            "throttled_worlds": self.throttled,
            "repeated_blocks": self.repeated_blocks,
            "pressure_some": self.pressure_some,
            "mhz": self.mhz,
            "load": self.load,
        }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.fmean(known), 4) if known else None
