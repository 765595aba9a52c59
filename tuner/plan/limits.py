"""Limits: bounds that a configuration must keep to be recommended, such as `peak_rss_mb<=2000`."""

import math
import re
from dataclasses import dataclass
from typing import Self

from tuner.plan.objectives import CPUS_USED, METRIC, OBJECTIVES, Kind, Objective
from tuner.text import did_you_mean, plain_number, share, three_digits

LIMITED: dict[str, Objective] = {**OBJECTIVES, CPUS_USED.name: CPUS_USED}
"""What may be limited, by name: every number of a world that is measured of it."""

_LIMIT = re.compile(r"\s*(?P<name>\w+)\s*(?P<sign><=|>=)\s*(?P<bound>\S+)\s*")


@dataclass(frozen=True)
class Limit:
    """A bound on a number of a configuration; what is judged is the median over its worlds."""

    name: str
    """A key of `LIMITED`."""
    at_most: bool
    """Whether the number may not be larger than the bound; else it may not be smaller."""
    bound: float

    @classmethod
    def read(cls, raw: object) -> Self:
        """The limit in text such as `peak_rss_mb<=2000`; ValueError if it is none."""
        if isinstance(raw, cls):
            return raw
        if not isinstance(raw, str) or not (match := _LIMIT.fullmatch(raw)):
            raise ValueError(f"must be a limit such as peak_rss_mb<=2000, got {raw!r}")
        name = match["name"]
        if name not in LIMITED:
            raise ValueError(f"unknown metric {name[:60]!r}{did_you_mean(name, tuple(LIMITED))}")
        try:
            bound = float(match["bound"])
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise ValueError(f"must end in a number, without a unit, got {raw!r}")
        return cls(name, match["sign"] == "<=", bound)

    @property
    def number(self) -> Objective:
        """What is bounded, and how it is read from a world."""
        return LIMITED[self.name]

    def excess(self, value: float) -> float:
        """How far a value is beyond the bound, in the unit of the number; 0 or less keeps it."""
        return value - self.bound if self.at_most else self.bound - value

    def mistakes(self, kind: Kind, objective: str, *, has_metric: bool) -> list[str]:
        """What is wrong with it for a workload or a program, and for a study's objective."""
        if kind not in self.number.of:
            known = [name for name, each in LIMITED.items() if kind in each.of and not each.traced]
            return [f"require: {self.name} is not one of a {kind}; known: {', '.join(known)}"]
        if self.name == METRIC.name and not has_metric:
            return ["require: metric needs a metric: NAME=REGEX with one group"]
        if self.number.traced and self.name != objective:
            return [
                f"require: {self.name} is read from traces, and the worlds that count are not "
                "traced; it can be limited where it is the objective"
            ]
        return []

    def __str__(self) -> str:
        return f"{self.name}{'<=' if self.at_most else '>='}{plain_number(self.bound)}"


@dataclass(frozen=True)
class BrokenLimit:
    """A limit that a configuration does not keep."""

    limit: Limit
    value: float
    """The median over the configuration's worlds."""

    @property
    def text(self) -> str:
        """`peak_rss_mb 2400 > 2000, by 20 %`; without a share where the bound is 0."""
        limit = self.limit
        said = (
            f"{limit.name} {three_digits(self.value)} {'>' if limit.at_most else '<'} "
            f"{plain_number(limit.bound)}"
        )
        if not limit.bound:
            return said
        return f"{said}, by {share(limit.excess(self.value) / abs(limit.bound)) or '0 %'}"

    def to_json(self) -> dict[str, object]:
        """The entry in `--json`."""
        return {
            "limit": str(self.limit),
            "value": self.value,
            "excess": self.limit.excess(self.value),
        }
