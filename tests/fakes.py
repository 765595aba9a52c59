"""Fakes: whole studies in milliseconds, with no process."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tuner.errors import UsageError
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.settings import Settings
from tuner.plan.workload_spec import RankSpec, WorkloadSpec
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, FailureKind, Measurement, RankUsage

UDF = WorkloadSpec(
    reference="udf",
    summary="A fake of the UDF.",
    options={"calls": 4, "size": 100, "rounds": 10},
    ranks=(RankSpec(name="worker0", role="caller"), RankSpec(name="worker1", role="server")),
    intra_op_threads=1,
)


def threads_of(settings: Settings) -> int:
    """The worker threads that settings for all roles give."""
    threads = settings.for_role("server").get("num_worker_threads", NUM_WORKER_THREADS.default)
    assert isinstance(threads, int)
    return threads


@dataclass
class FakeClock:
    """Seconds that pass only when somebody lets them."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class FakeLauncher:
    """A launcher whose worlds take what `step_ms` says, with lognormal noise between worlds."""

    step_ms: Callable[[Settings], float] = lambda settings: 2.0
    sigma: float = 0.0
    """Standard deviation of log(step time) from world to world."""
    cpu_cores: Callable[[Settings], float] = lambda settings: 2.0
    fails: Callable[[Settings, int], FailureKind | None] = lambda settings, world: None
    """The failure of a world, given how many worlds its settings have had before."""
    overhead_s: float = 0.2
    failing_s: Callable[[Settings], float] = lambda settings: 0.2
    """How long a world takes that fails."""
    clock: FakeClock = field(default_factory=FakeClock)
    seed: int = 0
    spec: WorkloadSpec = UDF
    interrupt_after: int | None = None
    """Raise KeyboardInterrupt instead of the world with this number."""
    orders: list[WorldOrder] = field(default_factory=list)
    """Every world that was run, in order."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        problems = [f"unknown option {name!r}" for name in options if name not in self.spec.options]
        if reference != self.spec.reference:
            problems.insert(0, f"unknown workload {reference!r}. Known: {self.spec.reference}")
        if problems:
            raise UsageError.about(f"workload {reference}", problems)
        values = {name: int(str(options.get(name, default)))
                  for name, default in self.spec.options.items()}  # fmt: skip
        return self.spec.model_copy(update={"options": values})

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if self.interrupt_after is not None and len(self.orders) == self.interrupt_after:
            raise KeyboardInterrupt
        before = sum(each.settings == order.settings for each in self.orders)
        self.orders.append(order)
        if (kind := self.fails(order.settings, before)) is not None:
            world_s = self.failing_s(order.settings)
            self.clock.advance(world_s)
            return Failure(failure=kind, message="worker1 failed first", world_s=world_s)
        step_s = self.step_ms(order.settings) / 1e3 * math.exp(self._random.gauss(0, self.sigma))
        steps = order.steps or math.ceil(order.timed_part_s / step_s)
        wall_s = steps * step_s
        world_s = self.overhead_s + wall_s
        self.clock.advance(world_s)
        cpu_s = self.cpu_cores(order.settings) * wall_s / len(order.workload.ranks)
        return Measurement(
            step_s=(step_s,) * steps,
            wall_s=wall_s,
            world_s=world_s,
            ranks=tuple(
                RankUsage(name=rank.name, cpu_s=cpu_s, peak_rss_mb=200.0, threads=20)
                for rank in order.workload.ranks
            ),
        )


def order(
    spec: WorkloadSpec,
    *,
    threads: int = 2,
    steps: int | None = 5,
    deadline_s: float = 30.0,
    failure_folder: Path | None = None,
    **knobs: Any,
) -> WorldOrder:
    """An order of one world with these knobs for all roles."""
    return WorldOrder(
        workload=spec,
        settings=Settings.from_json({"*": {"num_worker_threads": threads, **knobs}}),
        seed=7,
        steps=steps,
        timed_part_s=0.05,
        deadline_s=deadline_s,
        failure_folder=failure_folder,
    )
