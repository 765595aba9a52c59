import pytest

from tuner.errors import UsageError
from tuner.plan.config import Config, Dimension
from tuner.plan.launching import RolePlace
from tuner.plan.space import Space
from tuner.plan.workload_spec import RankSpec
from tuner.world.ray.placing import HostInfo, Placing, Reserved, place_ranks, unreachable


def hosts(*cpus: int, gpus: tuple[int, ...] = ()) -> list[HostInfo]:
    return [
        HostInfo(
            node=f"n{number}",
            name=f"host{number}",
            address=f"10.0.0.{number}",
            cpus=count,
            gpus=gpus[number] if gpus else 0,
        )
        for number, count in enumerate(cpus)
    ]


def ranks(**roles: int) -> list[RankSpec]:
    return [
        RankSpec(name=f"{role}{number}", role=role)
        for role, count in roles.items()
        for number in range(count)
    ]


def place(*entries: tuple[str, object]) -> list[RolePlace]:
    return [RolePlace.read(roles, value) for roles, value in entries]


def nodes(placing: Placing) -> list[str]:
    return [host.node for host in placing.hosts]


def test_without_places_ranks_go_where_the_fewest_are() -> None:
    placing = place_ranks(ranks(caller=3, server=1), [], hosts(2, 2))
    assert nodes(placing) == ["n0", "n1", "n0", "n1"]
    assert placing.is_spread


def test_one_host_has_all_ranks() -> None:
    placing = place_ranks(ranks(caller=3, server=1), [], hosts(2))
    assert set(nodes(placing)) == {"n0"}
    assert not placing.is_spread


def test_roles_of_different_places_share_no_host() -> None:
    asked = place(("server", 1), ("caller", "spread"))
    placing = place_ranks(ranks(caller=4, server=2), asked, hosts(2, 2, 2))
    *callers, server0, server1 = nodes(placing)
    assert server0 == server1
    assert server0 not in callers
    assert callers == sorted(callers)
    assert len(set(callers)) == 2


def test_roles_of_one_place_share_their_hosts() -> None:
    placing = place_ranks(ranks(caller=1, server=1), place(("server+caller", 1)), hosts(2, 2))
    assert len(set(nodes(placing))) == 1


def test_ranks_are_dealt_evenly_and_in_order() -> None:
    placing = place_ranks(ranks(worker=5), place(("worker", 2)), hosts(4, 4, 4))
    assert nodes(placing) == ["n0", "n0", "n0", "n1", "n1"]


def test_what_is_reserved_is_summed_by_host() -> None:
    asked = place(("worker", "1,cpus=2,gpus=1"))
    placing = place_ranks(ranks(worker=2), asked, hosts(8, 8, gpus=(0, 2)))
    assert placing.reserved == {"n1": Reserved(cpus=4, gpus=2)}
    assert placing.gpus == (1, 1)


def test_hosts_with_gpus_are_left_to_those_that_need_them() -> None:
    asked = place(("caller", 1), ("server", "1,gpus=1"))
    placing = place_ranks(ranks(caller=1, server=1), asked, hosts(8, 8, gpus=(1, 0)))
    assert nodes(placing) == ["n1", "n0"]


def test_two_that_are_spread_share_what_is_left() -> None:
    asked = place(("a", "spread"), ("b", "spread"))
    placing = place_ranks(ranks(a=4, b=1), asked, hosts(1, 1, 1, 1))
    assert len(set(nodes(placing)[:4])) == 3
    assert nodes(placing)[4] not in nodes(placing)[:4]


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
