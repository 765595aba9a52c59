from collections.abc import Callable
from typing import ClassVar

import pytest

from tests.fakes import order
from tests.workloads.workload_contract import WorkloadContract, launcher
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement
from workloads import Rank, World
from workloads.nested import Nested

__all__ = ["launcher"]


class TestNested(WorkloadContract):
    reference = "nested"
    options: ClassVar[dict[str, object]] = {"depth": 3, "calls": 1}
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


Answers = list[tuple[int, tuple[str, ...]]]


def with_route(*names: str) -> Callable[[Answers], Answers]:
    return lambda found: [found[0], (1, names)]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda found: found[:1], "2 calls gave 1 answers"),
        (lambda found: found[::-1], "call 0 got the answer of call 1"),
        *(
            (with_route(*names), r"call 1 went through .* through worker1, worker2")
            for names in (("worker2", "worker1"), ("worker1",), ("worker1", "worker1"), ())
        ),
    ],
)
def test_wrong_answers_are_noticed(spoil: Callable[[Answers], Answers], message: str) -> None:
    workload = Nested(depth=2, calls=2)
    world = World(rank=0, ranks=tuple(workload.ranks()), seed=3)
    assert [rank.name for rank in world.ranks] == ["worker0", "worker1", "worker2"]
    assert world.ranks[2] == Rank("worker2", "server")
    right: Answers = [(call, ("worker1", "worker2")) for call in range(2)]
    workload._answers = right
    workload.check(world)
    workload._answers = spoil(right)
    with pytest.raises(AssertionError, match=message):
        workload.check(world)
