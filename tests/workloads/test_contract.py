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

    def step(self, world: World) -> None: ...


def problems_of(workload: type[Workload], **options: object) -> tuple[str, ...]:
    with pytest.raises(WorkloadError) as caught:
        workload(**options)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


def test_options_are_attributes_of_the_instance_and_all_mistakes_in_them_are_told() -> None:
    assert (Echo().calls, Echo(calls="8").calls, Echo.calls) == (4, 8, 4)
    unknown, threads, mistake = problems_of(Echo, call=1, intra_op_threads=4, calls="many")
    assert unknown.startswith("unknown option 'call'; did you mean calls?")
    assert threads.startswith("unknown option 'intra_op_threads'")
    assert mistake == "option calls must be int, got 'many'"


@pytest.mark.parametrize("missing", ["ranks", "step"])
def test_ranks_and_step_must_be_written(missing: str) -> None:
    partial = type("Partial", (Echo,), {missing: getattr(Workload, missing)})
    with pytest.raises(TypeError, match=missing):
        partial()


def test_a_world_tells_a_process_who_it_is_and_names_roles_in_rank_order() -> None:
    world = World(rank=2, ranks=RANKS, seed=7)
    assert (world.name, world.role) == ("observer2", "observer")
    assert world.names("observer") == ("observer1", "observer2")
    assert world.names("logger") == ()


NO_GPU = "option device is cuda, and PyTorch finds no GPU here"


@pytest.mark.parametrize(
    # What each option may be is in catalogue.json.
    ("workload", "options", "problems"),
    [
        *((name, {"device": "cuda"}, [NO_GPU]) for name in ("udf", "udf_sleep", "payload")),
        ("payload", {"megabytes": 0.001, "tensors": 1000},
         ["option megabytes is too small for the 1000 tensors of option tensors"]),
        ("cartpole", {"device": "cuda"},
         ["it needs Gymnasium: pip install 'rpc-tuner[cartpole]'", NO_GPU]),
        ("parameter_server", {"model": "resnet50", "device": "cuda", "batch_size": 1},
         [NO_GPU, "option model is resnet50, which needs torchvision, and that is not installed",
          "option batch_size must be at least 2 with model resnet50, for its BatchNorm, got 1"]),
    ],
)  # fmt: skip
def test_what_a_shipped_workload_cannot_have_is_told_together(
    monkeypatch: pytest.MonkeyPatch, workload: str, options: dict[str, object], problems: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(cartpole, "gymnasium", None)
    found = problems_of(load_workload(workload), **options)
    assert len(found) == len(problems)
    for told, expected in zip(sorted(found), sorted(problems), strict=True):
        assert told.startswith(expected)


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
