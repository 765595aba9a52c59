"""The forecast of another switch interval from one trace beside measured worlds.

`INTERVALS` names the subjects; default: all. Each is traced once with Python's 5 ms. Its worlds
are measured in rounds, in random order, with 5 ms among them.
"""

import math
import os
import random
import tempfile
from itertools import combinations
from pathlib import Path

from lab.benchmarks import beside_python
from lab.benchmarks.forecast import Row, Worlds, print_rows, ratio_of
from lab.benchmarks.report import Comparison
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import SWITCH_INTERVAL
from tuner.trace.files.reader import read_trace
from tuner.trace.forecast.forecasts import ALL, WhatIf, forecasts
from tuner.world.local.local_launcher import LocalLauncher

ROUNDS = int(os.environ.get("ROUNDS", "3"))
TRACED_S, OTHERS_S = 0.005, (0.001, 0.0002, 0.02)
SUBJECTS = (
    "Learner", "Actor", "HalfTheTime", "LetsGo", "Nobody", "Payload", "Operators", "Computes",
    "Sleeps", "AtOnce", "Full", "LongAndShort",
)  # fmt: skip


def run() -> list[Comparison]:
    """How often the forecasts are inside of their intervals, and put two values in the wrong order
    that worlds tell apart."""
    chosen = os.environ.get("INTERVALS", "")
    rows, wrong, pairs = list[Row](), 0, 0
    for name in chosen.split(",") if chosen else SUBJECTS:
        print_rows(found := _rows(name), "interval")
        rows += found
        for one, other in combinations(found, 2):
            apart = one.measured.low > other.measured.high or other.measured.low > one.measured.high
            if apart and not (one.found.why_not or other.found.why_not):
                pairs += 1
                as_told = one.found.ratio < other.found.ratio
                wrong += as_told != (one.measured.estimate < other.measured.estimate)
    told = [row for row in rows if not row.found.why_not]
    inside = sum(row.is_inside for row in told)
    return [
        Comparison("forecast intervals, over those inside of theirs",
                   f"{inside} of {len(told)}, {len(rows) - len(told)} refused", "all",
                   len(told) / max(inside, 1), 1.0, "x", most=10 / 9),
        Comparison("pairs in the wrong order, of those that worlds tell apart",
                   f"{wrong} of {pairs}", "none", 1.0 + wrong, 1.0, "x", most=1.0),
    ]  # fmt: skip


def _rows(name: str) -> list[Row]:
    """A row for each interval but the traced one; with that itself, whose ratio is 1."""
    every = (TRACED_S, *OTHERS_S)
    took_s: dict[float, list[float]] = {each: [] for each in every}
    with LocalLauncher() as launcher, tempfile.TemporaryDirectory() as folder:
        worlds = Worlds(launcher, f"{beside_python.__file__}:{name}", {})
        worlds.trace(path := Path(folder) / "trace.json")
        for number in range(ROUNDS):
            for each in random.Random(number).sample(every, len(every)):
                took_s[each].append(worlds.measure_s(_config(each), number))
        asked = [WhatIf(intervals_s={ALL: each}) for each in every]
        told = dict(zip(every, forecasts(read_trace(path), asked), strict=True))
    return [
        Row(name, SWITCH_INTERVAL.format(each), told[each], ratio_of(some, took_s[TRACED_S]))
        for each, some in took_s.items()
        # A world that failed tells nothing of its speed.
        if each != TRACED_S and all(map(math.isfinite, (*some, *took_s[TRACED_S])))
    ]


def _config(interval_s: float) -> Config:
    return Config.of({Dimension(ALL, SWITCH_INTERVAL.name): interval_s})
