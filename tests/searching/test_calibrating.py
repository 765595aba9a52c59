"""The budget is a promise, whatever fails; and what needs no world gets none."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fakes import FakeLauncher, threads_of
from tests.plan.specs import threads
from tests.searching.tuning import Listening, Tune, failing, row_of, scaling
from tuner.plan.config import Config
from tuner.plan.workload_spec import WorkloadSpec
from tuner.present.wording import failure_lines, why_nothing_ran
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement


@dataclass
class Hanging(FakeLauncher):
    """Worlds that fail with `timed-out` last until their deadline."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        before_s = self.clock.now_s
        outcome = super().run(order)
        if isinstance(outcome, Failure) and outcome.failure == "timed-out":
            self.clock.now_s = before_s + order.deadline_s
            return outcome.model_copy(
                update={"world_s": order.deadline_s, "message": f"not done {order.deadline_s} s"}
            )
        return outcome


EIGHT = {"num_worker_threads": [1, 2, 3, 4, 6, 8, 12, 32]}


@pytest.mark.parametrize("budget_s", [20, 300])
def test_where_all_hang_the_budget_holds_and_the_workload_is_broken(
    tune: Tune, budget_s: int
) -> None:
    launcher, heard = Hanging(fails=lambda config, world: "timed-out"), Listening()
    started_s = launcher.clock.now_s
    result = tune(launcher, space=EIGHT, budget=f"{budget_s}s", observer=heard)
    assert launcher.clock.now_s - started_s <= budget_s + 2
    assert len(launcher.orders) in (2, 3, 4)
    assert (result.best, result.verdict) == (None, None)
    tried = len({order.config for order in launcher.orders})
    told = why_nothing_ran(result)
    assert f"all {tried} that were tried failed alike" in told
    assert ": timed-out, not done" in told
    assert len(failure_lines(result)) == 1
    assert sum("timed-out" in event for event in heard.told) == 1


class SlowToDescribe(Hanging):
    """Finding out about the workload takes as long as it is told."""

    describing_s = 9.5

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        self.clock.advance(self.describing_s)
        return super().describe(reference, options)


def test_the_time_before_the_first_world_is_a_part_of_the_budget(tune: Tune) -> None:
    launcher = SlowToDescribe(fails=lambda config, world: "timed-out")
    started_s = launcher.clock.now_s
    result = tune(launcher, space=EIGHT, budget="20s")
    assert launcher.clock.now_s - started_s <= 20 + 2
    assert [order.deadline_s for order in launcher.orders] == [10.0, 2.5]
    # The second one was cut short, and that says nothing of it.
    assert "only num_worker_threads=16 was tried, and failed" in why_nothing_ran(result)


def test_a_budget_that_was_spent_before_the_first_world_leaves_little_to_it(tune: Tune) -> None:
    launcher = SlowToDescribe(fails=lambda config, world: "timed-out")
    tune(launcher, space=EIGHT, budget="2s")
    assert [order.deadline_s for order in launcher.orders] == [2 + 10 + 2 - 9.5]


@pytest.mark.parametrize(
    "fails",
    [
        failing("timed-out", *EIGHT["num_worker_threads"]),
        lambda config, world: "timed-out" if world == 2 else None,
    ],
)
def test_what_hangs_does_not_overdraw_the_budget(tune: Tune, fails: Any) -> None:
    launcher = Hanging(fails=fails)
    started_s = launcher.clock.now_s
    result = tune(launcher, space=EIGHT, budget="20s")
    assert launcher.clock.now_s - started_s <= 20 + 0.25 + 2
    assert result.best == result.baseline


def test_a_world_that_the_budget_cut_short_is_no_failure(tune: Tune) -> None:
    launcher = Hanging(
        step_ms=lambda config: 2.0 if threads_of(config) == 16 else 3.0,
        fails=failing("timed-out", 2),
        overhead_s=2.0,
    )
    result = tune(launcher, space={"num_worker_threads": [2]}, budget="16s")
    row = row_of(result, threads(2))
    assert (row.outcome, row.failure) == ("not-measured", None)


def test_different_failures_are_no_broken_workload(tune: Tune) -> None:
    kinds: Any = {16: "crashed", 1: "wrong-answer"}
    launcher = FakeLauncher(fails=lambda config, world: kinds.get(threads_of(config), "crashed"))
    tune(launcher, space=EIGHT)
    assert len({order.config for order in launcher.orders}) == 9


def test_a_knob_that_has_one_value_in_all_that_failed_may_be_the_cause(tune: Tune) -> None:
    def fails(config: Config, world: int) -> Any:
        return None if "transports=uv" in str(config) else "init-failed"

    launcher = FakeLauncher(fails=fails)
    space = {"num_worker_threads": [1, 2, 4, 8, 32], "transports": ["shm", "uv"]}
    result = tune(launcher, space=space, budget="60s", sampler="grid")
    assert result.best is not None
    assert "transports=uv" in str(result.best)


@dataclass
class Deadlocking(FakeLauncher):
    """The server deadlocks with one thread, whatever the caller has."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        outcome = super().run(order)
        if order.config.for_role("server")["num_worker_threads"] == 1:
            return Failure(
                failure="deadlocked", message="worker1 deadlocked", rank="worker1", world_s=0.2
            )
        return outcome


def test_a_deadlock_that_one_thread_implies_is_learnt(tune: Tune) -> None:
    launcher, heard = Deadlocking(step_ms=scaling), Listening()
    space = {"caller": {"num_worker_threads": [1, 2, 4]}, "server": {"num_worker_threads": [1, 4]}}
    result = tune(launcher, space=space, budget="60s", observer=heard)
    tried = Counter(o.config.for_role("server").get("num_worker_threads") for o in launcher.orders)
    assert tried[1] == 1
    told = [event for event in heard.told if "deadlocks" in event]
    assert len(told) == 1
    assert told[0].startswith("not measured, server.num_worker_threads=1 deadlocks: ")
    assert Counter(row.outcome for row in result.rows)["deadlocked"] == 1


@pytest.mark.parametrize(("times", "failed"), [(1, 0), (2, 1)])
def test_a_world_that_somebody_killed_is_run_once_more(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, times: int, failed: int
) -> None:
    launcher, plain = FakeLauncher(step_ms=scaling), FakeLauncher.run
    killed: list[WorldOrder] = []

    def run(self: FakeLauncher, order: WorldOrder) -> Measurement | Failure:
        if threads_of(order.config) == 4 and len(killed) < times:
            killed.append(order)
            return Failure(failure="crashed", message="gone", is_untimely=True, world_s=0.1)
        return plain(self, order)

    monkeypatch.setattr(FakeLauncher, "run", run)
    result = tune(launcher)
    row = row_of(result, threads(4))
    assert (row.failure, row.worlds_failed) == (None, failed)
    assert len(killed) == times
