import re
import sys
from collections.abc import Sequence

import pytest
import torch

from workloads import Rank, Workload, WorkloadError, World, cartpole
from workloads.registry import load_workload

RANKS = (Rank("agent0", "agent"), Rank("observer1", "observer"), Rank("observer2", "observer"))


class Echo(Workload):
    """Sends numbers there and back."""

    calls: int = 4
    """Calls in flight in each step."""

    def ranks(self) -> Sequence[Rank]:
        return RANKS

    def step(self, world: World) -> None:
        self.last = (world.name, self.calls)


def problems_of(workload: type[Workload], **options: object) -> tuple[str, ...]:
    with pytest.raises(WorkloadError) as caught:
        workload(**options)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


def test_options_are_attributes_of_the_instance_and_all_mistakes_in_them_are_told() -> None:
    assert (Echo().calls, Echo(calls="8").calls, Echo.calls) == (4, 8, 4)
    unknown, mistake = problems_of(Echo, call=1, calls="many")
    assert unknown.startswith("unknown option 'call'; did you mean calls?")
    assert mistake == "option calls must be int, got 'many'"


def test_the_intra_op_threads_are_no_option() -> None:
    class Parallel(Echo):
        intra_op_threads = 2

    assert Parallel().intra_op_threads == 2
    (problem,) = problems_of(Parallel, intra_op_threads=4)
    assert problem.startswith("unknown option 'intra_op_threads'")


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


def test_a_world_tells_a_process_who_it_is_and_names_roles_in_rank_order() -> None:
    world = World(rank=2, ranks=RANKS, seed=7)
    assert (world.name, world.role) == ("observer2", "observer")
    assert world.names("observer") == ("observer1", "observer2")
    assert world.names("logger") == ()


@pytest.mark.parametrize(
    ("workload", "options", "problems"),
    [
        ("payload", {"megabytes": 0, "calls": 0, "tensors": 0},
         {"megabytes": "above 0 and at most 4096", "calls": "at least 1 and at most 4096",
          "tensors": "at least 1"}),
        ("cartpole",
         {"observers": 0, "steps": 1, "gamma": 1.5, "learning_rate": 0, "hidden": 0, "seed": -1},
         {"observers": "at least 1", "steps": "at least 2",
          "gamma": "at least 0.01 and at most 1", "learning_rate": "at least 1e-05 and at most 1",
          "hidden": "at least 1", "seed": "at least 0 and below 4294967296"}),
        ("parameter_server",
         {"trainers": 0, "image_size": 7, "batch_size": 0, "model": "large"},
         {"trainers": "at least 1 and at most 63", "image_size": "at least 8 and at most 1024",
          "batch_size": "at least 1 and at most 4096", "model": "small or resnet50"}),
    ],
)  # fmt: skip
def test_bad_options_of_a_shipped_workload_are_refused_together(
    workload: str, options: dict[str, object], problems: dict[str, str]
) -> None:
    assert problems_of(load_workload(workload), **options) == tuple(
        f"option {name} must be {limits}, got {options[name]!r}"
        for name, limits in problems.items()
    )


@pytest.mark.parametrize(
    ("workload", "options", "problems"),
    [
        *(
            (name, {"device": "cuda"}, ["option device is cuda, and PyTorch finds no GPU here"])
            for name in ("udf", "udf_sleep", "payload")
        ),
        ("payload", {"megabytes": 0.001, "tensors": 1000},
         ["option megabytes is too small for the 1000 tensors of option tensors"]),
        ("cartpole", {"device": "cuda"},
         ["it needs Gymnasium: pip install 'rpc-tuner[cartpole]'",
          "option device is cuda, and PyTorch finds no GPU here"]),
        ("parameter_server", {"model": "resnet50", "device": "cuda", "batch_size": 1},
         ["option device is cuda, and PyTorch finds no GPU here",
          "option model is resnet50, which needs torchvision, and that is not installed",
          "option batch_size must be at least 2 with model resnet50, for its BatchNorm, got 1"]),
    ],
)  # fmt: skip
def test_what_cannot_be_had_here_is_told_together(
    monkeypatch: pytest.MonkeyPatch,
    workload: str,
    options: dict[str, object],
    problems: list[str],
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(cartpole, "gymnasium", None)
    found = problems_of(load_workload(workload), **options)
    assert len(found) == len(problems)
    for told, expected in zip(sorted(found), sorted(problems), strict=True):
        assert re.match(re.escape(expected), told)


@pytest.mark.parametrize(
    ("workload", "options", "names", "roles"),
    [
        ("nested", {"depth": 3}, "worker0 worker1 worker2 worker3", "caller server"),
        ("cartpole", {"observers": 2}, "agent observer1 observer2", "agent observer"),
        ("parameter_server", {"trainers": 2}, "ps trainer1 trainer2", "server trainer"),
    ],
)
def test_ranks_of_a_shipped_workload(
    workload: str, options: dict[str, object], names: str, roles: str
) -> None:
    ranks = load_workload(workload)(**options).ranks()
    assert [rank.name for rank in ranks] == names.split()
    driver, others = roles.split()
    assert [rank.role for rank in ranks] == [driver, *[others] * (len(ranks) - 1)]
