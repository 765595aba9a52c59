"""What the first, cold run of a program shows about how it can be started warm."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType


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
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"event": "imported"' not in line:
                continue
            try:
                event = json.loads(line)
            except ValueError:
                continue
            modules.update(dict.fromkeys(event["modules"]))
            environment.update(event["environment"])
    return Learnt(modules=tuple(modules), environment=environment)
