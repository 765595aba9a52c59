"""A fake of a program that nobody edits: whole studies of it in milliseconds."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testing.fakes import FakeClock, NothingToClose, fake_trace
from tuner.files import written_atomically
from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.workload_spec import RankSpec
from tuner.world.launcher import RunAsItIs, WorldOrder
from tuner.world.measurement import Failure, Measurement, ProgramRun, RankUsage

COMMAND = ["python", "main.py", "--world-size", "3"]
RANKS = (
    RankSpec(name="agent", role="agent"),
    RankSpec(name="observer1", role="observer"),
    RankSpec(name="observer2", role="observer"),
)
OWN: dict[str, dict[str, Any]] = {
    "agent": {"num_worker_threads": 16, "intra_op_threads": 2, "transports": None},
    "observer": {"num_worker_threads": 16, "intra_op_threads": 1, "transports": ["uv"]},
}


@dataclass
class FakeProgramLauncher(NothingToClose):
    """A launcher whose runs are active for as long as `active_s` says, with lognormal noise."""

    active_s: Callable[[Config], float]
    calls: tuple[int, int] = (32, 32)
    run_s: tuple[float, ...] = ()
    own: dict[str, dict[str, Any]] = field(default_factory=lambda: OWN)
    clock: FakeClock = field(default_factory=FakeClock)
    orders: list[WorldOrder] = field(default_factory=list)
    did: Callable[[Config], dict[str, Any]] = lambda config: {}  # what its `ProgramRun` has
    functions: tuple[dict[str, int], ...] = ()  # what its first runs called
    first_runs: int = 0  # how often it is run as it is, to find out about it
    facts: dict[str, Any] = field(default_factory=dict)  # what else its runs showed
    warned: tuple[str, ...] = ()  # what PyTorch warned of in its own code

    def __post_init__(self) -> None:
        self._random = random.Random(0)

    def subject_of(self, draft: PlanDraft) -> ProgramSpec:
        assert draft.program is not None
        return ProgramSpec(
            **draft.program.model_dump(), ranks=RANKS, own=self.own, calls=self.calls,
            shuts_down=True, own_network=True, run_s=self.run_s, functions=self.functions,
            **self.facts,
        )  # fmt: skip

    def inspect(
        self, draft: PlanDraft, failure_folder: Path | None = None, trace: Path | None = None
    ) -> Iterator[RunAsItIs]:
        spec = self.subject_of(draft)
        if not self.first_runs:
            yield RunAsItIs(spec, None, 0.0)
        for _ in range(self.first_runs):
            run = self._run(spec.own_config)
            yield RunAsItIs(spec, run, run.world_s, self.warned)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        self.orders.append(order)
        outcome = self._run(order.config)
        if order.trace is not None:
            world_s = outcome.wall_s
            return Failure(failure="trace-failed", message="a fake has none", world_s=world_s)
        return outcome

    def _run(self, config: Config) -> Measurement:
        active_s = self.active_s(config) * math.exp(self._random.gauss(0, 0.01))
        self.clock.advance(active_s + 0.5)
        usage = [RankUsage(name=rank.name, cpu_s=0.1, peak_rss_mb=200.0, threads=20)
                 for rank in RANKS]  # fmt: skip
        calls = self._random.choice(self.calls)
        known = {"calls": calls, "rpc_active_s": active_s, "metric": 100 / active_s}
        run = ProgramRun(**{**known, **self.did(config)})
        return Measurement(wall_s=active_s, world_s=active_s + 0.5, ranks=tuple(usage), program=run)


class TracedProgramLauncher(FakeProgramLauncher):
    """A program whose runs can be traced."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        if order.trace is None:
            return super().run(order)
        self.orders.append(order)
        with written_atomically(order.trace.path) as partial:
            partial.write_bytes(fake_trace(order.config, 0.1, 5))
        return self._run(order.config)
