"""What a world costs beyond its measured time, by how it is launched, and by its network."""

import statistics
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from lab.benchmarks.programs import STEPS
from lab.benchmarks.report import Bar, Comparison
from tests.programs.running import PYTHON, free_port
from tuner.plan.config import Config
from tuner.world.launcher import TraceOrder, WorkloadLauncher, WorldOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement

FAN_OUT = "lab.benchmarks.subjects:FanOut"
ROUNDS = 15
SPAWN_ROUNDS = {2: 5, 5: 3}
"""By the number of ranks: as the recipe does it, a world of 5 takes eight seconds."""
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
    outcome = launcher.run(
        WorldOrder(
            subject=launcher.describe(workload, options or {}),
            config=config,
            seed=0,
            steps=steps,
            min_time_s=0.3,
            deadline_s=120.0,
            trace=None if trace is None else TraceOrder(path=trace, operators=operators),
        )
    )
    assert isinstance(outcome, Measurement), outcome
    return outcome


def run() -> list[Comparison]:
    """The local launcher beside the recipe's spawn, for 2 and 5 ranks."""
    found = []
    with LocalLauncher() as launcher:
        for ranks, rounds in SPAWN_ROUNDS.items():
            local, spawn = _medians(rounds, _cost_of(launcher, ranks), _spawn_cost_of(ranks))
            bar = Bar(least_ratio=8.0, most=0.3) if ranks == 2 else Bar()
            sides = "local launcher", "mp.spawn, as in the recipe"
            name = f"cost of a world of {ranks} ranks"
            found.append(Comparison(name, *sides, local, spawn, bar=bar))
    return found


def isolation() -> list[Comparison]:
    """Worlds with a network namespace of their own beside worlds without."""
    with LocalLauncher() as own, LocalLauncher(isolation=False) as shared:
        if not own.own_network:
            return []
        for launcher in (own, shared):
            _world(launcher, 2)  # the first world pays for the import of torch
        both = (lambda: _world(own, 2).world_s), (lambda: _world(shared, 2).world_s)
        with_s, without_s = _medians(ROUNDS, *both)
    return [
        Comparison(
            "a world of 2 ranks, by its network", "a network of its own",
            "the machine's (--no-isolation)", with_s, without_s, bar=Bar(least_ratio=0.9),
        )
    ]  # fmt: skip


def on_ray() -> list[Comparison]:
    """A warm host of a Ray cluster beside the local launcher, for 2 and 5 ranks."""
    from tuner.world.ray.ray_launcher import RayLauncher

    found = []
    with LocalLauncher() as local, RayLauncher() as ray:
        for ranks in (2, 5):
            on_ray, here = _medians(ROUNDS, _cost_of(ray, ranks), _cost_of(local, ranks))
            name, bar = f"cost of a world of {ranks} ranks on Ray", Bar(least_ratio=1 / 1.5)
            sides = "a warm host of a Ray cluster", "local launcher"
            found.append(Comparison(name, *sides, on_ray, here, bar=bar))
    return found


def _world(launcher: WorkloadLauncher, ranks: int) -> Measurement:
    return measured_world(launcher, FAN_OUT, STEPS, options={"servers": ranks - 1})


def _cost_of(launcher: WorkloadLauncher, ranks: int) -> Callable[[], float]:
    """Measures the seconds of one world beyond its measured time."""

    def cost_s() -> float:
        world = _world(launcher, ranks)
        return world.world_s - world.wall_s

    cost_s()  # the first world pays for the import of torch, and for a host's actor
    return cost_s


def _spawn_cost_of(ranks: int) -> Callable[[], float]:
    """The same for one launched as in the recipe."""

    def cost_s() -> float:
        command = [*PYTHON, "-m", "lab.benchmarks.programs", "spawn", free_port(), str(ranks)]
        root = Path(__file__).parents[2]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
        return float(done.stdout)

    return cost_s


def _medians(rounds: int, *sides: Callable[[], float]) -> tuple[float, ...]:
    """Of each side, measured in turns."""
    found = [[measure() for measure in sides] for _ in range(rounds)]
    return tuple(map(statistics.median, zip(*found, strict=True)))
