from typing import Any

import pytest

from testing.fakes import UDF
from tuner.errors import UsageError
from tuner.plan.draft import draft_plan
from tuner.plan.keys import search_arguments
from tuner.plan.launching import Launching, RolePlace, read_launching


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (1, RolePlace(roles=("server",), hosts=1)),
        ("spread", RolePlace(roles=("server",))),
        ("2,cpus=4,gpus=1", RolePlace(roles=("server",), hosts=2, cpus=4, gpus=1)),
        ({"hosts": "spread", "cpus": 2}, RolePlace(roles=("server",), cpus=2)),
        ({"gpus": 1}, RolePlace(roles=("server",), gpus=1)),
    ],
)
def test_a_place_is_read_and_written(value: object, place: RolePlace) -> None:
    assert RolePlace.read("server", value) == place
    roles, _, text = str(place).partition("=")
    assert RolePlace.read(roles, text) == place


ON_HOSTS = {
    "launcher": "ray",
    "ray_address": "10.0.0.1:6379",
    "interface": "eth1",
    "place": {"server+agent": "1,cpus=2", "caller": "spread"},
}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, ""),
        (ON_HOSTS, "--launcher ray --ray-address 10.0.0.1:6379 --interface eth1 "
                   "--place server+agent=1,cpus=2 --place caller=spread"),
        ({"isolation": False}, "--no-isolation"),
        ({"groups": 4, "cpus_per_world": 16}, "--groups 4 --cpus-per-world 16"),
    ],
)  # fmt: skip
def test_a_launching_is_written_as_it_is_read(keys: dict[str, Any], words: str) -> None:
    launching, mistakes = read_launching(keys)
    assert (launching.keys(), mistakes) == (keys, [])
    assert sorted(search_arguments(launching.keys())) == sorted(words.split())
    assert Launching.model_validate(launching.model_dump(mode="json")) == launching
    assert launching.is_grouped == ("groups" in keys)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"launcher": "rya"}, "unknown launcher 'rya'"),
        ({"place": {"server": 1}}, "place is for the launcher ray"),
        ({"ray_address": "10.0.0.1:6379"}, "ray_address is for the launcher ray"),
        ({"launcher": "ray", "ray_address": "ray://h:1"}, "run the command on one of its hosts"),
        ({"launcher": "ray", "place": {"server": 0}}, "server: hosts must be a whole number"),
        ({"launcher": "ray", "place": {"server": "1,cpu=4"}}, "unknown key 'cpu'; did you mean"),
        ({"launcher": "ray", "place": {"a+": 1}}, "a role has no name"),
        *(({"launcher": "ray", "place": place}, "place must be a table, such as server = 1, got ")
          for place in ("server", [1, 2], 5, [["a"]], [["a", "b", "c"]])),
        ({"isolation": "no"}, "isolation: Input should be a valid boolean"),
        ({"launcher": "ray", "isolation": False}, "isolation is for the launcher local: hosts"),
        ({"groups": 0}, "groups must be a whole number of at least 1, got 0"),
        ({"cpus_per_world": "many"}, "cpus_per_world must be a whole number of at least 1, got m"),
        ({"launcher": "ray", "cpus_per_world": 2}, "cpus_per_world is for the launcher local; pl"),
        ({"launcher": "ray", "place": {"a+b": 1, "b": 1}}, "the role b has two places"),
    ],
)  # fmt: skip
def test_mistakes_are_told(keys: dict[str, Any], told: str) -> None:
    (mistake,) = read_launching(keys)[1]
    assert told in mistake


def test_a_role_that_is_not_there_is_refused() -> None:
    draft = draft_plan({"workload": "udf", "launcher": "ray", "place": {"servr": 1}})
    with pytest.raises(UsageError, match="place: there is no role 'servr'; did you mean"):
        draft.finish(UDF)
