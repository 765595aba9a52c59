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


@pytest.mark.parametrize(
    ("knob", "raws", "expected"),
    [
        ("num_worker_threads", ["1,2,4", " 1, 2 ,4,", [1, 2, 4], ["1", 2, "4"], "1,2,2,4,1"],
         [1, 2, 4]),
        ("num_worker_threads", ["8,1,4"], [8, 1, 4]),
        ("num_worker_threads", [8, "8", "8..8"], [8]),
        ("num_worker_threads", ["1..32"], [1, 2, 4, 8, 16, 32]),
        ("num_worker_threads", ["3..20"], [4, 8, 16]),
        ("num_worker_threads", ["1..8:1"], [1, 2, 3, 4, 5, 6, 7, 8]),
        ("num_worker_threads", ["2..9:3"], [2, 5, 8]),
        ("num_worker_threads", ["1..4,6,10..12:1"], [1, 2, 4, 6, 10, 11, 12]),
        ("num_worker_threads", [["1..4", 6]], [1, 2, 4, 6]),
        ("rpc_timeout", ["1..4,0.5"], [1.0, 2.0, 4.0, 0.5]),
        ("transports", ["shm,uv,shm+uv,default", ["shm", "uv", ["shm", "uv"], "default"]],
         [("shm",), ("uv",), ("shm", "uv"), None]),
    ],
)  # fmt: skip
def test_lists_and_ranges(knob: str, raws: list[object], expected: list[object]) -> None:
    assert [values(knob, raw) for raw in raws] == [expected] * len(raws)


RISES = "must rise from at least 1, by steps of at least 1"
HUGE = "1..1000000000000:1"


@pytest.mark.parametrize(
    ("raws", "told"),
    [
        (["8..1", "0..8", "-4..8", "1..8:0", "1..8:-1"], f"range {{raw}} {RISES}"),
        (["5..7"], "range 5..7 holds no power of two; 5..7:1 means every number"),
        # Before it is counted.
        ([HUGE, f"1..{MAX_CONFIGS + 1}:1"], f"range {{raw}} has more than {MAX_CONFIGS} values"),
        (["", " , ", []], "the list of values is empty"),
    ],
)
def test_what_is_no_list_and_no_range_is_refused(raws: list[object], told: str) -> None:
    for raw in raws:
        expected = f"num_worker_threads: {told.format(raw=raw)}"
        assert mistakes(("num_worker_threads", raw)) == [expected]


def test_a_space_has_no_more_than_so_many_configs() -> None:
    assert parsed(("num_worker_threads", f"1..{MAX_CONFIGS}:1")).size == MAX_CONFIGS
    entries = [(f"role{n}.num_worker_threads", "1..100:1") for n in range(2)]
    assert mistakes(*entries) == [f"10000 configurations are more than {MAX_CONFIGS}"]
    assert len(mistakes(("num_worker_threads", "1.." + "9" * 5000))) == 1


def test_a_knob_is_taken_out_for_every_role() -> None:
    space = parsed(("cpu_binding", "none,equal"), ("server.num_worker_threads", "1,2"),
                   ("caller.num_worker_threads", 4))  # fmt: skip
    assert space.values_of("num_worker_threads") == [1, 2, 4]
    assert space.without("num_worker_threads") == parsed(("cpu_binding", "none,equal"))
    assert space.without("transports") == space


def test_all_mistakes_are_reported_together() -> None:
    entries: list[tuple[str, object]] = [
        ("num_worker_thread", "1,2"),
        ("num_worker_threads", "0,many,4"),
        ("*.num_worker_threads", "4"),
        ("transports", "sm,shm,+"),
        ("server.rpc_timeout", "-1"),
    ]
    assert mistakes(*entries) == [
        "unknown knob 'num_worker_thread'; did you mean num_worker_threads?",
        "num_worker_threads: must be at least 1, got 0",
        "num_worker_threads: must be a whole number, got 'many'",
        "num_worker_threads is given twice",
        "transports: unknown transport 'sm'; did you mean shm?",
        "transports: has an empty list; known: shm, uv, ibv",
        "server.rpc_timeout: must be above 0, got -1",
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
    assert space.to_json() == {"num_worker_threads": [1, 2, 4], "agent.transports": [["shm"], None]}
    assert parsed(*space.to_json().items()) == space


UNKNOWN = "unknown role 'agent'; known: caller, server"
CUDA = [("devices", "0,1"), ("channels", "basic,cuda_ipc+basic"), ("device_maps", "s:0-0")]
SAME = "must be the same for all roles, or init_rpc fails; give"
TRANSPORTS = [f"transports {SAME} transports=... instead of caller.transports"]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([("caller.num_worker_threads", "1"), ("rpc_timeout", "5")], []),
        ([("servers.rpc_timeout", "1")], ["unknown role 'servers'; did you mean server?"]),
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
        ([("transports", "shm,uv")], []),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_workload(
    entries: list[tuple[str, object]], expected: list[str]
) -> None:
    assert check_against(parsed(*entries).axes, workload_spec("caller", "server")) == expected


def test_with_cuda_its_knobs_are_fine() -> None:
    assert check_against(parsed(*CUDA).axes, workload_spec(cuda_devices=2)) == []


def test_the_baseline_is_pytorchs_default_for_each_tuned_knob() -> None:
    space = parsed(("num_worker_threads", "1,2"), ("transports", "shm"), ("intra_op_threads", "4"))
    found = baseline_config(Config.of({}), space, workload_spec(intra_op_threads=2))
    assert found == for_all(num_worker_threads=16, transports=None, intra_op_threads=2)
    space = parsed(("server.num_worker_threads", "1,2"), ("rpc_timeout", "5"))
    found = baseline_config(threads(8), space, workload_spec())
    assert found == for_all(num_worker_threads=8, rpc_timeout=60)


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
