from typing import Any

import pytest

from testing.specs import workload_spec
from tuner.plan.config import Config
from tuner.plan.space import MAX_CONFIGS, Space, baseline_config, check_against


def parsed(*entries: tuple[str, object]) -> Space:
    space, problems = Space.parse(entries)
    assert problems == []
    return space


@pytest.mark.parametrize(
    ("knob", "raws", "expected"),
    [
        ("num_worker_threads", ["1,2,4", " 1, 2 ,4,", [1, 2, 4], ["1", 2, "4"], "1,2,2,4,1"],
         [1, 2, 4]),
        ("num_worker_threads", ["8,1,4"], [8, 1, 4]),
        ("num_worker_threads", [8, "8", "8..8"], [8]),
        ("num_worker_threads", ["1..32:x2"], [1, 2, 4, 8, 16, 32]),
        ("num_worker_threads", ["3..20:x2"], [3, 6, 12]),
        ("num_worker_threads", ["1..8:1", "1..8"], [1, 2, 3, 4, 5, 6, 7, 8]),
        ("num_worker_threads", ["2..9:3"], [2, 5, 8]),
        ("num_worker_threads", ["1..4:x2,6,10..12"], [1, 2, 4, 6, 10, 11, 12]),
        ("num_worker_threads", [["1..4:x2", 6]], [1, 2, 4, 6]),
        ("rpc_timeout", ["1..4:x2,0.5"], [1.0, 2.0, 4.0, 0.5]),
        ("transports", ["shm,uv,shm+uv,default", ["shm", "uv", ["shm", "uv"], "default"]],
         [("shm",), ("uv",), ("shm", "uv"), None]),
    ],
)  # fmt: skip
def test_lists_and_ranges(knob: str, raws: list[object], expected: list[object]) -> None:
    assert [parsed((knob, raw)).values_of(knob) for raw in raws] == [expected] * len(raws)


RISES = "must rise from at least 1, by steps of at least 1"


@pytest.mark.parametrize(
    ("raws", "told"),
    [
        (["8..1", "0..8", "-4..8", "1..8:0", "1..8:-1", "1..8:x0"], f"range {{raw}} {RISES}"),
        (["5..7:x1"], "range {raw} must multiply by at least 2"),
        # Before it is counted.
        ([f"1..{10**12}"], f"range {{raw}} has more than {MAX_CONFIGS} values; {{raw}}:x2 doubles"),
        (["", " , ", []], "the list of values is empty"),
    ],
)  # fmt: skip
def test_what_is_no_list_and_no_range_is_refused(raws: list[object], told: str) -> None:
    for raw in raws:
        _, problems = Space.parse([("num_worker_threads", raw)])
        assert problems == [f"num_worker_threads: {told.format(raw=raw)}"]


def test_a_space_has_no_more_than_so_many_configs() -> None:
    assert parsed(("num_worker_threads", f"1..{MAX_CONFIGS}:1")).size == MAX_CONFIGS
    _, problems = Space.parse((f"role{n}.num_worker_threads", "1..100:1") for n in range(2))
    assert problems == [f"10000 configurations are more than {MAX_CONFIGS}"]


def test_the_grid_is_every_combination_with_the_last_axis_fastest() -> None:
    space = parsed(("num_worker_threads", "4,8"), ("server.transports", "shm,default"))
    assert [str(each) for each in space.grid()] == [
        f"num_worker_threads={count} server.transports={name}"
        for count in (4, 8) for name in ("shm", "default")
    ]  # fmt: skip
    document = {"num_worker_threads": [4, 8], "server.transports": [["shm"], None]}
    assert space.to_json() == document
    assert parsed(*document.items()) == space


UNKNOWN = "unknown role 'agent'; known: caller, server"
CUDA = [("devices", "0,1"), ("channels", "basic,cuda_ipc+basic"), ("device_maps", "s:0-0")]
SAME = "must be the same for all roles, or init_rpc fails; give"
TRANSPORTS = [f"transports {SAME} transports=... instead of caller.transports"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([("caller.num_worker_threads", "1"), ("rpc_timeout", "5")], []),
        ([("agent.num_worker_threads", "1"), ("agent.rpc_timeout", "5")], [UNKNOWN]),
        (CUDA, ["devices: it needs CUDA, which torch does not see here",
                "channels: cuda_ipc needs CUDA, which torch does not see here",
                "device_maps: it needs CUDA, which torch does not see here"]),
        ([("devices", "default"), ("channels", "basic,cma")], []),
        ([("caller.transports", "shm")], TRANSPORTS),
        ([("transports", "uv"), ("caller.transports", "shm")], TRANSPORTS),
        ([("caller.channels", "basic,cma"), ("server.channels", "basic,cma")],
         [f"channels {SAME} channels=... instead of caller.channels, server.channels"]),
        ([("caller.cpu_binding", "equal")],
         ["cpu_binding must be the same for all roles, whose ranks share the CPUs of their host; "
          "give cpu_binding=... instead of caller.cpu_binding"]),
        ([("caller.transports", "shm"), ("server.transports", "shm")], []),
        ([("transports", "shm"), ("caller.transports", "shm")], []),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_workload(
    entries: list[tuple[str, object]], expected: list[str]
) -> None:
    assert check_against(parsed(*entries).axes, workload_spec("caller", "server")) == expected
    if entries == CUDA:
        assert check_against(parsed(*entries).axes, workload_spec(cuda_devices=2)) == []


@pytest.mark.parametrize(
    ("space", "named", "baseline"),
    [
        ({"num_worker_threads": "1,2", "transports": "shm", "intra_op_threads": "4"}, {},
         {"*": {"num_worker_threads": 16, "transports": None, "intra_op_threads": 2}}),
        ({"server.num_worker_threads": "1,2", "rpc_timeout": "5"}, {"*": {"num_worker_threads": 8}},
         {"*": {"num_worker_threads": 8, "rpc_timeout": 60}}),
        ({"num_worker_threads": "1,2"}, {"server": {"num_worker_threads": 4}},
         {"*": {"num_worker_threads": 16}, "server": {"num_worker_threads": 4}}),
        # What is said for one role is left out where all roles have it, unless it is tuned.
        ({"num_worker_threads": "1,2"}, {"server": {"num_worker_threads": 16}},
         {"*": {"num_worker_threads": 16}}),
        ({"num_worker_threads": "1,2", "server.num_worker_threads": "4"},
         {"server": {"num_worker_threads": 16}},
         {"*": {"num_worker_threads": 16}, "server": {"num_worker_threads": 16}}),
    ],
)  # fmt: skip
def test_the_baseline_is_what_is_named_or_else_the_default(
    space: dict[str, str], named: dict[str, Any], baseline: dict[str, Any]
) -> None:
    spec = workload_spec(intra_op_threads=2)
    found = baseline_config(Config.from_json(named), parsed(*space.items()), spec)
    assert found == Config.from_json(baseline)
