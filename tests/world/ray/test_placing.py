import pytest

from tuner.errors import UsageError
from tuner.plan.config import Config, Dimension
from tuner.plan.launching import RolePlace
from tuner.plan.space import Space
from tuner.plan.workload_spec import RankSpec
from tuner.world.ray.placing import HostInfo, Reserved, place_ranks, unreachable


def hosts(*cpus: int, gpus: tuple[int, ...] = (0,) * 9) -> list[HostInfo]:
    return [
        HostInfo(node=f"n{at}", name=f"host{at}", address=f"10.0.0.{at}", cpus=count, gpus=gpus[at])
        for at, count in enumerate(cpus)
    ]


def ranks(**roles: int) -> list[RankSpec]:
    return [RankSpec(name=f"{role}{at}", role=role) for role, n in roles.items() for at in range(n)]


def place(*entries: tuple[str, object]) -> list[RolePlace]:
    return [RolePlace.read(roles, value) for roles, value in entries]


@pytest.mark.parametrize(
    ("roles", "asked", "there", "placed"),
    [
        # Without places ranks go where the fewest are.
        ({"caller": 3, "server": 1}, [], hosts(2, 2), [0, 1, 0, 1]),
        # Roles of different places share no host, those of one place do.
        ({"caller": 4, "server": 2}, [("server", 1), ("caller", "spread")], hosts(2, 2, 2),
         [1, 1, 2, 2, 0, 0]),
        ({"caller": 1, "server": 1}, [("server+caller", 1)], hosts(2, 2), [0, 0]),
        # Ranks are dealt evenly and in order.
        ({"worker": 5}, [("worker", 2)], hosts(4, 4, 4), [0, 0, 0, 1, 1]),
        # Hosts with GPUs are left to those that need them.
        ({"caller": 1, "server": 1}, [("caller", 1), ("server", "1,gpus=1")],
         hosts(8, 8, gpus=(1, 0)), [1, 0]),
        # Two that are spread share what is left.
        ({"a": 4, "b": 1}, [("a", "spread"), ("b", "spread")], hosts(1, 1, 1, 1), [0, 0, 2, 3, 1]),
    ],
)  # fmt: skip
def test_where_ranks_go(
    roles: dict[str, int], asked: list[tuple[str, object]], there: list[HostInfo], placed: list[int]
) -> None:
    placing = place_ranks(ranks(**roles), place(*asked), there)
    assert [host.node for host in placing.hosts] == [f"n{at}" for at in placed]


def test_what_is_reserved_is_summed_by_host() -> None:
    asked = place(("worker", "1,cpus=2,gpus=1"))
    placing = place_ranks(ranks(worker=2), asked, hosts(8, 8, gpus=(0, 2)))
    assert placing.reserved == {"n1": Reserved(cpus=4, gpus=2)}
    assert placing.gpus == (1, 1)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([("server", 1), ("caller", "spread")], "caller=spread: it takes 1 host that no other"),
        ([("server", "1,cpus=9")], "server=1,cpus=9: .* each with 9 CPUs, for 1 rank"),
        ([("server", "1,gpus=1")], "each with 1 GPU"),
        ([("caller", 2)], "caller=2: it has only 1 rank;"),
    ],
)
def test_what_cannot_be_placed_is_told_with_what_there_is(
    asked: list[tuple[str, object]], told: str
) -> None:
    with pytest.raises(UsageError, match=told) as error:
        place_ranks(ranks(caller=1, server=1), place(*asked), hosts(2))
    assert "the cluster has host0 at 10.0.0.0 (2 CPUs)" in str(error.value)


def test_what_works_within_a_host_alone_is_refused_between_hosts() -> None:
    space, _ = Space.parse([("transports", "shm,uv,shm+uv"), ("channels", "cma+basic")])
    baseline = Config.of({Dimension.parse("channels"): ("cma",)})
    first, second = unreachable(space, baseline, 2)
    assert first.startswith("transports=shm works through shared memory, and the ranks are on 2")
    assert second.startswith("channels=cma works through another process's memory")


def test_a_host_that_has_its_address_in_its_name_is_told_with_it_once() -> None:
    host = HostInfo(node="n0", name="pod (10.0.0.7)", address="10.0.0.7", cpus=2, gpus=1)
    assert str(host) == "pod (10.0.0.7) (2 CPUs, 1 GPU)"
