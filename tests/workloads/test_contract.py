from collections.abc import Sequence

import pytest

from workloads import Rank, Workload, WorkloadError, World

RANKS = (Rank("agent0", "agent"), Rank("observer1", "observer"), Rank("observer2", "observer"))


class Echo(Workload):
    """Sends numbers there and back."""

    calls: int = 4
    """Calls in flight in each step."""

    def ranks(self) -> Sequence[Rank]:
        return RANKS

    def step(self, world: World) -> None:
        self.last = (world.name, self.calls)


def test_options_are_attributes_of_the_instance() -> None:
    assert Echo().calls == 4
    assert Echo(calls="8").calls == 8
    assert Echo.calls == 4


def test_every_mistake_in_the_options_is_reported() -> None:
    with pytest.raises(WorkloadError) as caught:
        Echo(call=1, calls="many")
    assert len(caught.value.problems) == 2
    assert caught.value.problems[1] == "option calls must be int, got 'many'"
    assert str(caught.value) == "; ".join(caught.value.problems)


def test_the_intra_op_threads_are_no_option() -> None:
    class Parallel(Echo):
        intra_op_threads = 2

    assert Parallel().intra_op_threads == 2
    with pytest.raises(WorkloadError, match="unknown option 'intra_op_threads'"):
        Parallel(intra_op_threads=4)


@pytest.mark.parametrize("missing", ["ranks", "step"])
def test_ranks_and_step_must_be_written(missing: str) -> None:
    partial = type("Partial", (Workload,), {"ranks": Echo.ranks, "step": Echo.step} | {
        missing: getattr(Workload, missing)})  # fmt: skip
    with pytest.raises(TypeError, match=missing):
        partial()


def test_only_ranks_and_step_must_be_written() -> None:
    world, echo = World(rank=0, ranks=RANKS, seed=7), Echo()
    echo.setup(world)
    echo.step(world)
    echo.check(world)
    echo.teardown(world)
    assert echo.last == ("agent0", 4)


def test_a_world_tells_a_process_who_it_is() -> None:
    world = World(rank=2, ranks=RANKS, seed=7)
    assert world.name == "observer2"
    assert world.role == "observer"


def test_a_world_names_the_processes_of_a_role_in_rank_order() -> None:
    world = World(rank=0, ranks=RANKS, seed=7)
    assert world.names("observer") == ("observer1", "observer2")
    assert world.names("agent") == ("agent0",)
    assert world.names("logger") == ()
