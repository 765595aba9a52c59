from typing import ClassVar

import pytest

from tests.fakes import order
from tests.workloads.workload_contract import WorkloadContract, launcher
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement
from workloads import Rank, WorkloadError, World
from workloads.nested import Nested

__all__ = ["launcher"]


class TestNested(WorkloadContract):
    reference = "nested"
    options: ClassVar[dict[str, object]] = {"depth": 3, "calls": 1}
    faulty = ("tests.workloads.faults:OneSkipped",)
    deadlocks_with_one_thread = True

    @pytest.mark.parametrize(
        ("options", "threads"),
        [({"depth": 1, "calls": 3}, 1), ({"depth": 2, "calls": 3}, 4), ({}, 16)],
        ids=["no server waits", "one thread more than calls", "the defaults"],
    )
    def test_enough_threads_do_not_deadlock(
        self, launcher: LocalLauncher, options: dict[str, object], threads: int
    ) -> None:
        spec = launcher.describe("nested", options)
        outcome = launcher.run(order(spec, threads=threads, steps=50))
        assert isinstance(outcome, Measurement), outcome


WORLD = World(
    rank=0,
    ranks=(Rank("worker0", "caller"), Rank("worker1", "server"), Rank("worker2", "server")),
    seed=3,
)


def answered() -> Nested:
    """The workload after a step that went well."""
    workload = Nested(depth=2, calls=2)
    workload._answers = [(call, ("worker1", "worker2")) for call in range(2)]
    return workload


def test_right_answers_pass_the_check() -> None:
    answered().check(WORLD)


def test_a_world_has_as_many_servers_as_asked() -> None:
    assert Nested(depth=4).ranks() == [
        Rank("worker0", "caller"),
        *(Rank(f"worker{rank}", "server") for rank in range(1, 5)),
    ]


def test_a_missing_answer_is_noticed() -> None:
    workload = answered()
    workload._answers.pop()
    with pytest.raises(AssertionError, match="2 calls gave 1 answers"):
        workload.check(WORLD)


def test_swapped_answers_are_noticed() -> None:
    workload = answered()
    workload._answers.reverse()
    with pytest.raises(AssertionError, match="call 0 got the answer of call 1"):
        workload.check(WORLD)


@pytest.mark.parametrize(
    "names", [("worker2", "worker1"), ("worker1",), ("worker1", "worker1"), ()]
)
def test_another_route_is_noticed(names: tuple[str, ...]) -> None:
    workload = answered()
    workload._answers[1] = (1, names)
    with pytest.raises(AssertionError, match=r"call 1 went through .* through worker1, worker2"):
        workload.check(WORLD)


def test_bad_options_are_refused_together() -> None:
    with pytest.raises(WorkloadError) as raised:
        Nested(depth=0, calls=0)
    assert raised.value.problems == (
        "option depth must be at least 1, got 0",
        "option calls must be at least 1, got 0",
    )
