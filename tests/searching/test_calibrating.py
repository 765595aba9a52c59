"""What fails or hangs: the budget is a promise, and what needs no world gets none."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from testing.fakes import FakeLauncher, threads_of
from testing.specs import threads
from tests.searching.tuning import Tune, by_threads, failing, row_of, scaling
from tuner.plan.config import Config
from tuner.plan.workload_spec import WorkloadSpec
from tuner.present.failures_told import failure_lines, why_nothing_ran
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, FailureKind, Measurement

EIGHT = {"num_worker_threads": [1, 2, 3, 4, 6, 8, 12, 32]}
ALL = failing("timed-out", 16, *EIGHT["num_worker_threads"])


@dataclass
class Hanging(FakeLauncher):
    """Worlds that fail with `timed-out` last until their deadline."""

    describing_s: float = 0.0

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        self.clock.advance(self.describing_s)
        return super().describe(reference, options)

    def run(self, order: WorldOrder) -> Measurement | Failure:
        before_s = self.clock.now_s
        outcome = super().run(order)
        if isinstance(outcome, Failure) and outcome.failure == "timed-out":
            self.clock.now_s = before_s + order.deadline_s
            said = f"not done {order.deadline_s} s"
            return outcome.model_copy(update={"world_s": order.deadline_s, "message": said})
        return outcome


@pytest.mark.parametrize("budget_s", [20, 300])
def test_where_all_hang_the_budget_holds_and_the_workload_is_broken(
    tune: Tune, budget_s: int
) -> None:
    result = tune(Hanging(fails=ALL), space=EIGHT, budget=f"{budget_s}s")
    assert tune.spent_s <= budget_s + 2
    orders = tune.launcher.orders
    assert len(orders) in (2, 3, 4)
    assert (result.best, result.verdict) == (None, None)
    tried = len({order.config for order in orders})
    told = why_nothing_ran(result)
    assert f"all {tried} that were tried failed alike" in told
    assert ": timed-out, not done" in told
    assert len(failure_lines(result)) == 1
    assert sum("timed-out" in event for event in tune.heard.told) == 1


def test_the_time_before_the_first_world_is_a_part_of_the_budget(tune: Tune) -> None:
    result = tune(Hanging(fails=ALL, describing_s=9.5), space=EIGHT, budget="20s")
    assert tune.spent_s <= 20 + 2
    assert [order.deadline_s for order in tune.launcher.orders] == [10.0, 2.5]
    # The second one was cut short, and that says nothing of it.
    assert "only num_worker_threads=16 was tried, and failed" in why_nothing_ran(result)
    tune(Hanging(fails=ALL, describing_s=9.5), space=EIGHT, budget="2s", overwrite=True)
    assert [order.deadline_s for order in tune.launcher.orders] == [2 + 10 + 2 - 9.5]


def test_a_traced_baseline_that_hangs_is_reported_and_leaves_time_for_the_others(
    tune: Tune,
) -> None:
    launcher = Hanging(trace_fails=lambda config: "timed-out")
    result = tune(launcher, budget="20s")
    assert launcher.traced[0].deadline_s == 10.0
    told = "num_worker_threads=16: no trace: timed-out: not done 10.0 s"
    assert tune.heard.told[0].startswith(told)
    assert row_of(result, threads(16)).diagnosis == "No trace: not done 10.0 s."
    assert result.blocks > 0


@pytest.mark.parametrize(
    ("launcher", "asked"),
    [
        # The budget cut it short.
        (Hanging(step_ms=by_threads({16: 2.0, 8: 3.0}), fails=failing("timed-out", 8),
                 overhead_s=2.0), {"space": {"num_worker_threads": [8]}, "budget": "16s"}),
        # Three hang, and leave no time to calibrate the fourth, but time for another world.
        (FakeLauncher(fails=failing("timed-out", 1, 2, 4), failing_s=lambda config: 10.0),
         {"budget": "31s"}),
        # It is slow: the budget goes to its first world, and leaves none for a pair.
        (FakeLauncher(step_ms=by_threads({16: 2.0, 8: 3000.0})),
         {"space": {"num_worker_threads": [8]}, "budget": "6s"}),
    ],
)  # fmt: skip
def test_what_there_was_no_time_for_has_not_failed(
    tune: Tune, launcher: FakeLauncher, asked: dict[str, Any]
) -> None:
    result = tune(launcher, **asked)
    row = row_of(result, threads(8))
    assert (row.outcome, row.failure, row.samples) == ("not-measured", None, 0)
    assert (result.verdict, result.best) == ("undecided", result.baseline)
    trial = tune.study.trials[row.trial]
    assert (trial.state.name, trial.user_attrs["outcome"]) == ("PRUNED", "not-measured")


def test_what_hangs_does_not_use_up_the_budget_of_the_others(tune: Tune) -> None:
    space, hangs = {"num_worker_threads": [1, 2, 4, 8, 32]}, failing("timed-out", 1, 2, 4)
    asked: dict[str, Any] = {"fails": hangs, "failing_s": lambda config: 10.0, "space": space}
    result = tune(**asked, budget="45s", deadline="60s")
    assert row_of(result, threads(4)).outcome == "timed-out"
    assert row_of(result, threads(32)).outcome in ("completed", "eliminated")
    assert result.challenger is not None


def test_different_failures_are_no_broken_workload(tune: Tune) -> None:
    kinds: Any = {16: "crashed", 1: "wrong-answer"}
    tune(fails=lambda config, world: kinds.get(threads_of(config), "crashed"), space=EIGHT)
    assert len({order.config for order in tune.launcher.orders}) == 9


def test_a_knob_that_has_one_value_in_all_that_failed_may_be_the_cause(tune: Tune) -> None:
    def fails(config: Config, world: int) -> FailureKind | None:
        return None if "transports=uv" in str(config) else "init-failed"

    space = {"num_worker_threads": [1, 2, 4, 8, 32], "transports": ["shm", "uv"]}
    result = tune(fails=fails, space=space, budget="60s", sampler="grid")
    assert "transports=uv" in str(result.best)


@dataclass
class Deadlocking(FakeLauncher):
    """The server deadlocks with one thread, whatever the caller has."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        outcome = super().run(order)
        if order.config.for_role("server")["num_worker_threads"] == 1:
            return Failure(failure="deadlocked", message="all wait", rank="worker1", world_s=0.2)
        return outcome


def test_a_deadlock_that_one_thread_implies_is_learnt(tune: Tune) -> None:
    space = {"caller": {"num_worker_threads": [1, 2, 4]}, "server": {"num_worker_threads": [1, 4]}}
    result = tune(Deadlocking(step_ms=scaling), space=space, budget="60s")
    of_server = [order.config.for_role("server") for order in tune.launcher.orders]
    assert Counter(each.get("num_worker_threads") for each in of_server)[1] == 1
    (told,) = [event for event in tune.heard.told if "deadlocks" in event]
    assert told.startswith("not measured, server.num_worker_threads=1 deadlocks: ")
    assert Counter(row.outcome for row in result.rows)["deadlocked"] == 1


def test_what_fails_again_is_named_once(tune: Tune) -> None:
    tune(step_ms=scaling, fails=failing("crashed", 1))
    again = [told for told in tune.heard.told if "more world" in told]
    assert again == ["3 more worlds failed as that of num_worker_threads=1 did"]


@pytest.mark.parametrize(("times", "failed"), [(1, 0), (2, 1)])
def test_a_world_that_somebody_killed_is_run_once_more(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, times: int, failed: int
) -> None:
    plain, killed = FakeLauncher.run, list[WorldOrder]()

    def run(self: FakeLauncher, order: WorldOrder) -> Measurement | Failure:
        if threads_of(order.config) == 4 and len(killed) < times:
            killed.append(order)
            return Failure(failure="crashed", message="gone", is_untimely=True, world_s=0.1)
        return plain(self, order)

    monkeypatch.setattr(FakeLauncher, "run", run)
    row = row_of(tune(step_ms=scaling), threads(4))
    assert (row.failure, row.worlds_failed) == (None, failed)
    assert len(killed) == times
