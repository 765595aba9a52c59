"""Fakes: whole studies in milliseconds, with no process."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tuner.errors import UsageError
from tuner.files import written_atomically
from tuner.plan.config import Config, knobs_meant
from tuner.plan.draft import PlanDraft
from tuner.plan.knobs import NUM_WORKER_THREADS
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.workload_spec import RankSpec, WorkloadSpec
from tuner.trace.files.native_writer import trace_document
from tuner.trace.model import spans
from tuner.world.environment import MachineState
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, FailureKind, Measurement, RankUsage

UDF = WorkloadSpec(
    reference="udf",
    summary="A fake of the UDF.",
    options={"calls": 4, "size": 100, "rounds": 10},
    ranks=(RankSpec(name="worker0", role="caller"), RankSpec(name="worker1", role="server")),
    intra_op_threads=1,
)


def threads_of(config: Config) -> int:
    """The worker threads of a configuration for all roles."""
    threads = config.for_role("server").get("num_worker_threads", NUM_WORKER_THREADS.default)
    assert isinstance(threads, int)
    return threads


@dataclass
class FakeClock:
    """A clock that only moves when it is told to."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


class NothingToClose:
    """A context manager that leaves nothing behind."""

    own_network = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        return None


@dataclass
class FakeLauncher(NothingToClose):
    """A launcher whose worlds take what `step_ms` says, with lognormal noise between worlds."""

    step_ms: Callable[[Config], float] = lambda config: 2.0
    sigma: float = 0.0  # the standard deviation of log(step time) from world to world
    cpu_cores: Callable[[Config], float] = lambda config: 2.0
    # How a world fails, from how many timed worlds its configuration had before.
    fails: Callable[[Config, int], FailureKind | None] = lambda config, world: None
    trace_fails: Callable[[Config], FailureKind | None] = lambda config: None
    tracing_overhead: float = 1.25
    overhead_s: float = 0.2
    failing_s: Callable[[Config], float] = lambda config: 0.2  # how long a world takes that fails
    clock: FakeClock = field(default_factory=FakeClock)
    seed: int = 0
    spec: WorkloadSpec = UDF
    interrupt_after: int | None = None  # KeyboardInterrupt instead of the world of this number
    interrupt_tracing: int | None = None  # and instead of the traced one
    others_cpus: Callable[[int], float] | None = None  # of 2, by the number of the timed world
    orders: list[WorldOrder] = field(default_factory=list)  # every timed world
    traced: list[WorldOrder] = field(default_factory=list)  # whose traces are kept

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def subject_of(self, draft: PlanDraft) -> WorkloadSpec:
        return self.describe(draft.workload, draft.options)

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        unknown = [name for name in options if name not in self.spec.options]
        problems = knobs_meant([f"unknown option {name!r}" for name in unknown], unknown)
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
        kept = order.trace is not None and order.trace.path.parent.name == "traces"
        if kept and len(self.traced) == self.interrupt_tracing:
            raise KeyboardInterrupt
        if (kind := self._failure(order)) is not None:
            world_s = self.failing_s(order.config)
            self.clock.advance(world_s)
            return Failure(failure=kind, message="worker1 failed first", world_s=world_s)
        step_s = self.step_ms(order.config) / 1e3 * math.exp(self._random.gauss(0, self.sigma))
        steps = order.steps or math.ceil(order.min_time_s / step_s)
        wall_s = steps * step_s
        world_s = self.overhead_s + wall_s
        self.clock.advance(world_s)
        if order.trace is not None:
            with written_atomically(order.trace.path) as partial:
                partial.write_bytes(fake_trace(order.config, step_s, steps))
        assert isinstance(order.subject, WorkloadSpec | ProgramSpec)
        cpu_s = self.cpu_cores(order.config) * wall_s / len(order.subject.ranks)
        machine = None
        if self.others_cpus is not None:
            others_cpus = self.others_cpus(len(self.orders) - 1)
            machine = MachineState(seconds=world_s, cpus=2, others_cpus=others_cpus)
        ranks = [
            RankUsage(name=rank.name, cpu_s=cpu_s, peak_rss_mb=200.0, threads=20)
            for rank in order.subject.ranks
        ]
        return Measurement(
            machine=machine, step_s=(step_s,) * steps, wall_s=wall_s, world_s=world_s,
            tracing_overhead=None if order.trace is None else self.tracing_overhead,
            ranks=tuple(ranks),
        )  # fmt: skip

    def _failure(self, order: WorldOrder) -> FailureKind | None:
        """Note a world, and say how it fails, if it does."""
        if order.trace is not None and order.trace.path.name != "trace.json":
            self.traced.append(order)
            return self.trace_fails(order.config)
        before = sum(each.config == order.config for each in self.orders)
        self.orders.append(order)
        return self.fails(order.config, before)


def fake_trace(config: Config, step_s: float, steps: int) -> bytes:
    """A trace of `steps` steps: in each, as many calls as the server has threads, four at most, are
    served for the whole of it, so the parallelism is their number."""
    threads, known = min(4, threads_of(config)), threads_of(config)
    step_ns = round(step_s * 1e9)
    ranks = [
        spans.TraceRank(rank=rank, name=f"worker{rank}", num_worker_threads=known)
        for rank in (0, 1)
    ]
    facts = spans.Facts(
        base_time_ns=10**18, window_ns=(0, steps * step_ns), ranks=tuple(ranks), steps=steps,
        tracing_overhead=1.25,
    )  # fmt: skip
    calls = []
    for number in range(steps * threads):
        start_ns, lane = number // threads * step_ns, number % threads
        end_ns = start_ns + step_ns
        sent = spans.ClientSpan(number, "rpc_async", "python", "udf", "worker1", 1, 100, None,
                                start_ns, start_ns, end_ns, "ok", "")  # fmt: skip
        served = spans.ServerSpan(number, 200 + lane, start_ns, end_ns, step_ns, 0)
        name = spans.call_name(sent, "worker0")
        calls.append(spans.MergedCall(name, "worker0", 0, sent, served, None, "exact"))
    return trace_document(spans.MergedTrace(facts, calls, []))


def order(
    spec: WorkloadSpec,
    *,
    threads: int = 2,
    steps: int | None = 5,
    deadline_s: float = 90.0,
    failure_folder: Path | None = None,
    **knobs: Any,
) -> WorldOrder:
    """An order of one world with these knobs for all roles."""
    return WorldOrder(
        subject=spec, config=Config.from_json({"*": {"num_worker_threads": threads, **knobs}}),
        seed=7, steps=steps, min_time_s=0.05, deadline_s=deadline_s, failure_folder=failure_folder,
    )  # fmt: skip
