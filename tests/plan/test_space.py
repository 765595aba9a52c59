import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.specs import for_all, threads, workload_spec
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import KNOBS
from tuner.plan.space import MAX_CONFIGS, Space, baseline_config, check_against


def parsed(*entries: tuple[str, object]) -> Space:
    space, problems = Space.parse(entries)
    assert problems == []
    return space


def values(knob: str, raw: object) -> list[object]:
    ((_, found),) = parsed((knob, raw)).axes
    return list(found)


def mistakes(*entries: tuple[str, object]) -> list[str]:
    return Space.parse(entries)[1]


@pytest.mark.parametrize("raw", ["1,2,4", " 1, 2 ,4,", [1, 2, 4], ["1", 2, "4"], "1,2,2,4,1"])
def test_lists_of_numbers(raw: object) -> None:
    assert values("num_worker_threads", raw) == [1, 2, 4]


def test_the_order_given_is_kept() -> None:
    assert values("num_worker_threads", "8,1,4") == [8, 1, 4]


def test_a_single_number() -> None:
    assert values("num_worker_threads", 8) == [8]
    assert values("num_worker_threads", "8") == [8]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("1..32", [1, 2, 4, 8, 16, 32]),
        ("3..20", [4, 8, 16]),
        ("8..8", [8]),
        ("1..8:1", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("2..9:3", [2, 5, 8]),
        ("5..5:1", [5]),
        ("1..4,6,10..12:1", [1, 2, 4, 6, 10, 11, 12]),
        (["1..4", 6], [1, 2, 4, 6]),
    ],
)
def test_ranges(raw: object, expected: list[int]) -> None:
    assert values("num_worker_threads", raw) == expected


def test_a_knob_is_taken_out_for_every_role() -> None:
    space = parsed(("cpu_binding", "none,equal"), ("server.num_worker_threads", "1,2"),
                   ("caller.num_worker_threads", 4))  # fmt: skip
    assert space.values_of("num_worker_threads") == [1, 2, 4]
    assert space.without("num_worker_threads") == parsed(("cpu_binding", "none,equal"))
    assert space.without("transports") == space


def test_a_range_of_seconds() -> None:
    assert values("rpc_timeout", "1..4,0.5") == [1.0, 2.0, 4.0, 0.5]


def test_lists_of_names() -> None:
    expected = [("shm",), ("uv",), ("shm", "uv"), None]
    assert values("transports", "shm,uv,shm+uv,default") == expected
    assert values("transports", ["shm", "uv", ["shm", "uv"], "default"]) == expected


@pytest.mark.parametrize("raw", ["8..1", "0..8", "-4..8", "1..8:0", "1..8:-1"])
def test_a_range_rises_from_1(raw: str) -> None:
    expected = f"num_worker_threads: range {raw} must rise from at least 1, by steps of at least 1"
    assert mistakes(("num_worker_threads", raw)) == [expected]


def test_a_range_without_a_power_of_two_says_how_to_get_every_number() -> None:
    assert mistakes(("num_worker_threads", "5..7")) == [
        "num_worker_threads: range 5..7 holds no power of two; 5..7:1 means every number"
    ]


def test_a_huge_range_is_refused_before_it_is_counted() -> None:
    assert mistakes(("num_worker_threads", "1..1000000000000:1")) == [
        f"num_worker_threads: range 1..1000000000000:1 has more than {MAX_CONFIGS} values"
    ]


def test_the_largest_range_is_allowed() -> None:
    assert parsed(("num_worker_threads", f"1..{MAX_CONFIGS}:1")).size == MAX_CONFIGS
    assert mistakes(("num_worker_threads", f"1..{MAX_CONFIGS + 1}:1"))


def test_too_many_configs_are_refused() -> None:
    entries = [(f"role{n}.num_worker_threads", "1..100:1") for n in range(2)]
    assert mistakes(*entries) == [f"10000 configurations are more than {MAX_CONFIGS}"]


@pytest.mark.parametrize("raw", ["", " , ", []])
def test_an_empty_list(raw: object) -> None:
    assert mistakes(("num_worker_threads", raw)) == [
        "num_worker_threads: the list of values is empty"
    ]


def test_an_empty_list_of_names() -> None:
    assert mistakes(("transports", "shm,+")) == [
        "transports: has an empty list; known: shm, uv, ibv"
    ]


def test_all_mistakes_are_reported_together() -> None:
    entries: list[tuple[str, object]] = [
        ("num_worker_thread", "1,2"),
        ("num_worker_threads", "0,many,4"),
        ("num_worker_threads", "4"),
        ("transports", "sm,shm"),
        ("server.rpc_timeout", "-1"),
    ]
    assert mistakes(*entries) == [
        "unknown knob 'num_worker_thread'; did you mean num_worker_threads?",
        "num_worker_threads: must be at least 1, got 0",
        "num_worker_threads: must be a whole number, got 'many'",
        "num_worker_threads is given twice",
        "transports: unknown transport 'sm'; did you mean shm?",
        "server.rpc_timeout: must be above 0, got -1",
    ]


def test_a_star_names_all_roles_too() -> None:
    assert mistakes(("num_worker_threads", "1"), ("*.num_worker_threads", "2")) == [
        "num_worker_threads is given twice"
    ]


knob_names = st.sampled_from([*KNOBS, *(f"agent.{name}" for name in KNOBS)])
value_texts = st.text() | st.text(alphabet="0123456789.:,+-/aces hmuv")


@given(st.lists(st.tuples(st.text() | knob_names, value_texts), max_size=4))
def test_parse_never_raises_on_text(entries: list[tuple[str, object]]) -> None:
    space, problems = Space.parse(entries)
    assert all(found for _, found in space.axes)
    assert all(problems)
    if entries and not space.axes:
        assert problems


@given(st.text(alphabet="0123456789.:", max_size=12))
def test_parse_accepts_numbers_of_at_least_1_only(text: str) -> None:
    space, problems = Space.parse([("num_worker_threads", text)])
    for _, found in space.axes:
        assert all(isinstance(value, int) and value >= 1 for value in found)
    assert problems or space.axes


def test_a_number_of_thousands_of_digits_is_a_mistake() -> None:
    assert len(mistakes(("num_worker_threads", "9" * 5000))) == 1
    assert len(mistakes(("num_worker_threads", "1.." + "9" * 5000))) == 1


def test_the_grid_is_every_combination_with_the_last_axis_fastest() -> None:
    space = parsed(("num_worker_threads", "4,8"), ("server.rpc_timeout", "1,2"))
    assert [str(each) for each in space.grid()] == [
        "num_worker_threads=4 server.rpc_timeout=1",
        "num_worker_threads=4 server.rpc_timeout=2",
        "num_worker_threads=8 server.rpc_timeout=1",
        "num_worker_threads=8 server.rpc_timeout=2",
    ]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_the_size_is_that_of_the_grid(counts: list[int]) -> None:
    space = parsed(*((f"r{n}.num_worker_threads", f"1..{top}:1") for n, top in enumerate(counts)))
    assert space.size == len(space.grid()) == math.prod(counts)
    assert len(set(space.grid())) == space.size


def test_json_is_what_a_plan_would_say() -> None:
    space = parsed(("num_worker_threads", "1..4"), ("agent.transports", "shm,default"))
    assert space.to_json() == {
        "num_worker_threads": [1, 2, 4],
        "agent.transports": [["shm"], None],
    }
    assert parsed(*space.to_json().items()) == space


def workload_mistakes(*entries: tuple[str, object], cuda_devices: int = 0) -> list[str]:
    spec = workload_spec("caller", "server", cuda_devices=cuda_devices)
    return check_against(parsed(*entries).axes, spec)


def test_a_role_of_the_workload_is_fine() -> None:
    assert workload_mistakes(("caller.num_worker_threads", "1"), ("rpc_timeout", "5")) == []


def test_an_unknown_role_comes_with_the_nearest_or_all() -> None:
    assert workload_mistakes(("servers.num_worker_threads", "1")) == [
        "unknown role 'servers'; did you mean server?"
    ]
    assert workload_mistakes(("agent.num_worker_threads", "1")) == [
        "unknown role 'agent'; known: caller, server"
    ]


def test_an_unknown_role_is_told_once() -> None:
    found = workload_mistakes(("agent.num_worker_threads", "1"), ("agent.rpc_timeout", "5"))
    assert found == ["unknown role 'agent'; known: caller, server"]


def test_cuda_knobs_need_cuda() -> None:
    entries = [("devices", "0,1"), ("channels", "basic,cuda_ipc+basic"), ("device_maps", "s:0-0")]
    assert workload_mistakes(*entries) == [
        "devices: it needs CUDA, which torch does not see here",
        "channels: cuda_ipc needs CUDA, which torch does not see here",
        "device_maps: it needs CUDA, which torch does not see here",
    ]
    assert workload_mistakes(*entries, cuda_devices=2) == []


def test_the_default_of_a_cuda_knob_needs_none() -> None:
    assert workload_mistakes(("devices", "default"), ("channels", "basic,cma")) == []


def test_transports_must_not_differ_between_roles() -> None:
    expected = (
        "transports must be the same for all roles, or init_rpc fails; "
        "give transports=... instead of caller.transports"
    )
    assert workload_mistakes(("caller.transports", "shm")) == [expected]
    assert workload_mistakes(("transports", "uv"), ("caller.transports", "shm")) == [expected]


def test_several_values_per_role_would_differ_in_some_configs() -> None:
    entries = [("caller.channels", "basic,cma"), ("server.channels", "basic,cma")]
    assert workload_mistakes(*entries) == [
        "channels must be the same for all roles, or init_rpc fails; "
        "give channels=... instead of caller.channels, server.channels"
    ]


def test_transports_by_role_are_fine_where_they_agree() -> None:
    assert workload_mistakes(("caller.transports", "shm"), ("server.transports", "shm")) == []
    assert workload_mistakes(("transports", "shm"), ("caller.transports", "shm")) == []
    assert workload_mistakes(("transports", "shm,uv")) == []


def test_the_baseline_is_pytorchs_default_for_each_tuned_knob() -> None:
    space = parsed(("num_worker_threads", "1,2"), ("transports", "shm"), ("intra_op_threads", "4"))
    found = baseline_config(Config.of({}), space, workload_spec(intra_op_threads=2))
    assert found == for_all(num_worker_threads=16, transports=None, intra_op_threads=2)


def test_a_named_baseline_stands() -> None:
    space = parsed(("num_worker_threads", "1,2"), ("rpc_timeout", "5"))
    found = baseline_config(threads(8), space, workload_spec())
    assert found == for_all(num_worker_threads=8, rpc_timeout=60)


def test_a_baseline_for_all_roles_covers_a_tuned_role() -> None:
    space = parsed(("server.num_worker_threads", "1,2"))
    assert baseline_config(threads(8), space, workload_spec()) == threads(8)


def test_a_baseline_for_one_role_leaves_the_others_the_default() -> None:
    space = parsed(("num_worker_threads", "1,2"))
    named = Config.of({Dimension("server", "num_worker_threads"): 4})
    found = baseline_config(named, space, workload_spec())
    assert found.for_role("server") == {"num_worker_threads": 4}
    assert found.for_role("caller") == {"num_worker_threads": 16}


def test_a_baseline_for_one_role_that_says_what_all_roles_have_is_left_out() -> None:
    for_server = Config.of({Dimension("server", "num_worker_threads"): 16})
    space = parsed(("num_worker_threads", "1,2"))
    assert baseline_config(for_server, space, workload_spec()) == threads(16)
    by_role = parsed(("num_worker_threads", "1,2"), ("server.num_worker_threads", "4"))
    assert baseline_config(for_server, by_role, workload_spec()).items == (
        *threads(16).items,
        *for_server.items,
    )
