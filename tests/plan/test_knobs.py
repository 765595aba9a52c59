import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.specs import assert_refused
from tuner.plan.knobs import KNOBS, DeviceMaps, Value
from tuner.text import LONGEST_S


def _some(*known: str) -> st.SearchStrategy[Value]:
    return st.none() | st.lists(st.sampled_from(known), min_size=1, unique=True).map(tuple)


devices = st.integers(0, 15)
pairs = st.lists(
    st.tuples(devices, devices), min_size=1, max_size=3, unique_by=(lambda p: p[0], lambda p: p[1])
)
words = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
VALUES: dict[str, st.SearchStrategy[Value]] = {
    "num_worker_threads": st.integers(1, 4096),
    "transports": _some("shm", "uv", "ibv"),
    "channels": _some("cma", "mpt_uv", "basic", "cuda_ipc"),
    "rpc_timeout": st.floats(0, LONGEST_S, exclude_min=True),
    "devices": _some("cuda:0", "cuda:1", "cuda:15"),
    "device_maps": st.dictionaries(words, pairs.map(sorted).map(tuple), min_size=1, max_size=3).map(
        lambda by_callee: DeviceMaps(tuple(sorted(by_callee.items())))
    ),
    "intra_op_threads": st.integers(1, 4096),
    "cpu_binding": st.sampled_from(["none", "equal"]),
    "switch_interval": st.integers(10, 1_000_000).map(lambda microseconds: microseconds / 1e6),
}

MAPS = DeviceMaps((("worker1", ((0, 1), (1, 0))), ("worker2", ((0, 0),))))
MAPS_TEXT = "worker1:0-1+1-0/worker2:0-0"
BOTH = ("cuda:0", "cuda:1")


@pytest.mark.parametrize("name", sorted(KNOBS))
@given(data=st.data())
def test_formatted_values_and_json_values_read_back(name: str, data: st.DataObject) -> None:
    knob, value = KNOBS[name], data.draw(VALUES[name] | st.just(KNOBS[name].default))
    assert knob.read(knob.format(value)) == value
    assert knob.read(json.loads(json.dumps(knob.to_json(value)))) == value


@pytest.mark.parametrize(
    ("knob", "raws", "value"),
    [
        ("num_worker_threads", ["8", 8, " 8 ", "08"], 8),
        ("rpc_timeout", ["60", 60], 60.0),
        ("rpc_timeout", ["0.5", 0.5], 0.5),
        ("rpc_timeout", ["1234567.5"], 1234567.5),
        ("transports", ["shm+uv", " shm + uv ", ["shm", "uv"], ("shm", "uv")], ("shm", "uv")),
        ("transports", ["uv+shm"], ("uv", "shm")),
        ("transports", ["default", None], None),
        ("devices", ["cuda:0+cuda:1", "0+1", [0, 1], ["cuda:0", 1]], BOTH),
        ("devices", ["cuda:1", 1], ("cuda:1",)),
        ("device_maps", [MAPS_TEXT, " worker2:0-0 / worker1:1-0+0-1",
                       {"worker1": {"0": 1, "1": 0}, "worker2": {"cuda:0": "cuda:0"}}], MAPS),
        ("switch_interval", ["200us", "0.2ms", 0.0002], 0.0002),
        ("switch_interval", ["5ms", "0.005"], 0.005),
        ("cpu_binding", ["equal", " equal "], "equal"),
    ],
)  # fmt: skip
def test_values_as_people_write_them_and_first_in_their_shortest_form(
    knob: str, raws: list[object], value: Value
) -> None:
    assert [KNOBS[knob].read(raw) for raw in raws] == [value] * len(raws)
    assert KNOBS[knob].format(value) == raws[0]


@pytest.mark.parametrize(
    ("knob", "raws", "told"),
    [
        ("num_worker_threads", ["many", "", "8.0", 8.0, True, None, "default", [8]],
         "must be a whole number, got {raw!r}"),
        ("num_worker_threads", [0, "0", -3], "must be at least 1, got {raw}"),
        ("num_worker_threads", [4097], "must be at most 4096, got 4097"),
        ("rpc_timeout", ["60s", "", True, None], "must be a number of seconds, got {raw!r}"),
        ("rpc_timeout", [0, "-1", "nan"], "must be above 0, got {raw}"),
        ("rpc_timeout", ["inf"], "must be at most 31622400 s, got inf"),
        ("transports", ["shm+tcp"], "unknown transport 'tcp'; known: shm, uv, ibv"),
        ("channels", ["bassic"], "unknown channel 'bassic'; did you mean basic?"),
        ("transports", ["", "+", []], "has an empty list; known: shm, uv, ibv"),
        ("transports", ["shm+uv+shm"], "names one twice: shm+uv+shm"),
        ("devices", ["0+cuda:0", []], "must be different device indices (0+1), got {raw!r}"),
        ("devices", ["cpu", "-1"], "takes device indices from 0, got {raw!r}"),
        ("device_maps", ["worker1", ":0-1", "worker1:0", "worker1:0-1-2", "a:0-1/", ""],
         "is written CALLEE:HERE-THERE (worker1:0-1), got {raw!r}"),
        ("device_maps", ["worker1:0-x"], "takes device indices from 0, got 'x'"),
        ("device_maps", [{"worker1": {}}], "needs device pairs for 'worker1', got {{}}"),
        ("device_maps", ["worker1:0-1+1-1", {"worker1": {"0": 1, "cuda:0": 2}}],
         "maps a device twice for 'worker1'"),
        ("device_maps", ["worker1:0-1/worker1:1-0", "worker1:0-1+0-2"],
         "maps a device or a callee twice: {raw!r}"),
        # It would be formatted as nothing at all, which does not read back.
        ("device_maps", [{}], "names no callee"),
        ("switch_interval", ["9us"], "must be 10us to 1s, got 9us: below, threads do little but "
         "switch; above, one may stop all others for seconds"),
        ("switch_interval", ["soon"], "must be a duration such as 5ms, got 'soon'"),
        ("cpu_binding", ["equals"], "unknown cpu_binding 'equals'; did you mean equal?"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused(knob: str, raws: list[object], told: str) -> None:
    whole = told if told.startswith("unknown") else f"{knob} {told}"
    assert_refused(KNOBS[knob].read, raws, whole)
