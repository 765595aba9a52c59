"""What the first, cold run of a program shows about how it can be started warm."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tuner.world.command.events import read_events


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """What the ranks of a program had done by the time they called `init_rpc`."""

    modules: tuple[str, ...] = ()
    """Installed ones that they had imported, in that order."""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The variables they had that are read as libraries are imported."""


def learn(reports: Path) -> Learnt:
    """What the processes of a run have reported to their folder, for an order with `learn`."""
    modules: dict[str, None] = {}
    environment: dict[str, str] = {}
    for file in sorted(reports.glob("*.jsonl")):
        for event in read_events(file):
            if event["event"] == "imported":
                modules.update(dict.fromkeys(event["modules"]))
                environment.update(event["environment"])
    return Learnt(modules=tuple(modules), environment=environment)
