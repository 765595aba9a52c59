"""What a world costs beyond its measured time, by launcher and network, and what tracing adds."""

import math
import statistics
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from lab.benchmarks.programs import STEPS, printed
from lab.benchmarks.report import Comparison, in_turns
from testing.known import known
from testing.outcomes import measured
from tuner.plan.config import Config
from tuner.world.launcher import TraceOrder, WorkloadLauncher, WorldOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement

SUBJECTS = "lab.benchmarks.subjects"
ROUNDS = 15
SPAWNED = {2: (5, 8.0, 0.3), 5: (3, 0.0, math.inf)}
"""By the number of ranks: rounds and bars; as the recipe does it, a world of 5 takes eight s."""
# The overhead varies by 0.06 between worlds; the median of so many worlds varies by 0.01.
TRACED_WORLDS, FEW_WORLDS = 41, 11
TRACED_STEPS, LEGACY_STEPS, LEGACY_CALLS = 150, 20, 60
DEFAULT = Config.of({})
"""PyTorch's own values."""


def measured_world(
    launcher: WorkloadLauncher,
    workload: str,
    steps: int,
    *,
    options: Mapping[str, object] | None = None,
    config: Config = DEFAULT,
    trace: Path | None = None,
    operators: bool = True,
) -> Measurement:
    """What a world of so many steps yields; `trace` says where its trace is written, if at all."""
    order = WorldOrder(
        subject=launcher.describe(workload, options or {}), config=config, seed=0, steps=steps,
        min_time_s=0.3, deadline_s=120.0,
        trace=None if trace is None else TraceOrder(path=trace, operators=operators),
    )  # fmt: skip
    return measured(launcher.run(order))


def run() -> list[Comparison]:
    """The local launcher beside the recipe's spawn, for 2 and 5 ranks."""
    found = []
    with LocalLauncher() as launcher:
        for ranks, (rounds, least, most) in SPAWNED.items():
            spawn = partial(_spawn_cost_s, ranks)
            costs = in_turns(rounds, _cost_of(launcher, ranks), spawn)
            ours_s, theirs_s = map(statistics.median, costs)
            sides = "local launcher", "mp.spawn, as in the recipe"
            name = f"cost of a world of {ranks} ranks"
            found.append(Comparison(name, *sides, ours_s, theirs_s, least_ratio=least, most=most))
    return found


def isolation() -> list[Comparison]:
    """Worlds with a network namespace of their own beside worlds without."""
    with LocalLauncher() as own, LocalLauncher(isolation=False) as shared:
        if not own.own_network:
            return []
        for launcher in (own, shared):
            _world(launcher, 2)  # the first world pays for the import of torch
        both = (lambda: _world(own, 2).world_s), (lambda: _world(shared, 2).world_s)
        with_s, without_s = map(statistics.median, in_turns(ROUNDS, *both))
    return [
        Comparison(
            "a world of 2 ranks, by its network", "a network of its own",
            "the machine's (--no-isolation)", with_s, without_s, least_ratio=0.9,
        )
    ]  # fmt: skip


def on_ray() -> list[Comparison]:
    """A warm host of a Ray cluster beside the local launcher, for 2 and 5 ranks."""
    from tuner.world.ray.ray_launcher import RayLauncher

    found = []
    with LocalLauncher() as local, RayLauncher() as ray:
        for ranks in (2, 5):
            costs = in_turns(ROUNDS, _cost_of(ray, ranks), _cost_of(local, ranks))
            ours_s, theirs_s = map(statistics.median, costs)
            name = f"cost of a world of {ranks} ranks on Ray"
            sides = "a warm host of a Ray cluster", "local launcher"
            found.append(Comparison(name, *sides, ours_s, theirs_s, least_ratio=1 / 1.5))
    return found


def tracing_overhead() -> list[Comparison]:
    """That of the recipe's step, beside the legacy profiler's, and whether it grows with calls."""
    found: dict[str, list[float]] = {
        key: [] for key in ("spans", "operators", "legacy", "our growth", "legacy growth")
    }
    with tempfile.TemporaryDirectory() as folder, LocalLauncher() as launcher:
        path = Path(folder) / "trace.json"
        measured_world(launcher, "udf", 10)  # the first world pays the forkserver's import of torch
        for _ in range(TRACED_WORLDS):
            spans = measured_world(launcher, "udf", TRACED_STEPS, trace=path, operators=False)
            found["spans"].append(known(spans.tracing_overhead))
        for _ in range(FEW_WORLDS):
            operators = measured_world(launcher, "udf", TRACED_STEPS, trace=path)
            found["operators"].append(known(operators.tracing_overhead))
            plain = statistics.median(measured_world(launcher, "udf", TRACED_STEPS).step_s)
            legacy = measured_world(launcher, f"{SUBJECTS}:LegacyUdf", LEGACY_STEPS)
            found["legacy"].append(statistics.median(legacy.step_s) / plain)
            ours = measured_world(launcher, f"{SUBJECTS}:OneCall", 1010, trace=path)
            found["our growth"].append(_around(ours, 1000) / _around(ours, 10))
        for _ in range(3):
            legacy = measured_world(launcher, f"{SUBJECTS}:LegacyOneCall", LEGACY_CALLS)
            found["legacy growth"].append(_around(legacy, 50) / _around(legacy, 10))
    medians = {name: statistics.median(values) for name, values in found.items()}
    return [
        Comparison(name, ours, theirs, medians[key], medians[other], "x", most=most)
        for name, ours, theirs, key, other, most in (
            ("traced over untraced step, udf: spans alone", "spans", "legacy profiler",
             "spans", "legacy", 1.05),
            ("traced over untraced step, udf: with operators", "spans and operators",
             "legacy profiler", "operators", "legacy", 1.8),
            ("a late traced call over the 10th", "1000th, spans and operators",
             "50th, legacy profiler", "our growth", "legacy growth", 1.1),
        )
    ]  # fmt: skip


def _around(world: Measurement, number: int) -> float:
    """The median of the ten steps around this one, in seconds; steps count from 1."""
    return statistics.median(world.step_s[number - 5 : number + 5])


def _world(launcher: WorkloadLauncher, ranks: int) -> Measurement:
    return measured_world(launcher, f"{SUBJECTS}:FanOut", STEPS, options={"servers": ranks - 1})


def _cost_of(launcher: WorkloadLauncher, ranks: int) -> Callable[[], float]:
    """Measures the seconds of one world beyond its measured time."""

    def cost_s() -> float:
        world = _world(launcher, ranks)
        return world.world_s - world.wall_s

    cost_s()  # the first world pays for the import of torch, and for a host's actor
    return cost_s


def _spawn_cost_s(ranks: int) -> float:
    """The same for one launched as in the recipe."""
    return printed("spawn", ranks)[0]
