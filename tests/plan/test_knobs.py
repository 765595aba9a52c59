import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plan.specs import assert_refused
from tests.plan.strategies import VALUES
from tuner.plan.knobs import (
    CHANNELS,
    CPU_BINDING,
    DEVICE_MAPS,
    DEVICES,
    KNOBS,
    NUM_WORKER_THREADS,
    RPC_TIMEOUT,
    SWITCH_INTERVAL,
    TRANSPORTS,
    DeviceMaps,
    Knob,
    Value,
)

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
        (NUM_WORKER_THREADS, [8, "8", " 8 ", "08"], 8),
        (RPC_TIMEOUT, [5, "5"], 5.0),
        (RPC_TIMEOUT, [0.5, "0.5"], 0.5),
        (TRANSPORTS, ["shm+uv", " shm + uv ", ["shm", "uv"], ("shm", "uv")], ("shm", "uv")),
        (TRANSPORTS, ["uv+shm"], ("uv", "shm")),
        (TRANSPORTS, ["default", None], None),
        (DEVICES, ["0+1", "cuda:0+cuda:1", [0, 1], ["cuda:0", 1]], BOTH),
        (DEVICES, [1], ("cuda:1",)),
        (DEVICE_MAPS, [MAPS_TEXT, " worker2:0-0 / worker1:1-0+0-1",
                       {"worker1": {"0": 1, "1": 0}, "worker2": {"cuda:0": "cuda:0"}}], MAPS),
        (SWITCH_INTERVAL, ["0.2ms", 0.0002], 0.0002),
        (CPU_BINDING, ["equal", " equal "], "equal"),
    ],
)  # fmt: skip
def test_values_as_people_write_them(knob: Knob, raws: list[object], value: object) -> None:
    assert [knob.read(raw) for raw in raws] == [value] * len(raws)


@pytest.mark.parametrize(
    ("knob", "value", "text"),
    [
        (RPC_TIMEOUT, 60.0, "60"),
        (RPC_TIMEOUT, 1234567.5, "1234567.5"),
        (TRANSPORTS, None, "default"),
        (DEVICE_MAPS, MAPS, MAPS_TEXT),
        (SWITCH_INTERVAL, 0.005, "5ms"),
    ],
)
def test_values_in_their_shortest_form(knob: Knob, value: Value, text: str) -> None:
    assert knob.format(value) == text


@pytest.mark.parametrize(
    ("knob", "raws", "told"),
    [
        (NUM_WORKER_THREADS, ["many", "", "8.0", 8.0, True, None, "default", [8]],
         "num_worker_threads must be a whole number, got {raw!r}"),
        (NUM_WORKER_THREADS, [0, "0", -3], "num_worker_threads must be at least 1, got {raw}"),
        (NUM_WORKER_THREADS, [4097], "num_worker_threads must be at most 4096, got 4097"),
        (RPC_TIMEOUT, ["60s", "", True, None],
         "rpc_timeout must be a number of seconds, got {raw!r}"),
        (RPC_TIMEOUT, [0, "-1", "nan"], "rpc_timeout must be above 0, got {raw}"),
        (RPC_TIMEOUT, ["inf"], "rpc_timeout must be at most 31622400 s, got inf"),
        (TRANSPORTS, ["sm"], "unknown transport 'sm'; did you mean shm?"),
        (TRANSPORTS, ["shm+tcp"], "unknown transport 'tcp'; known: shm, uv, ibv"),
        (CHANNELS, ["bassic"], "unknown channel 'bassic'; did you mean basic?"),
        (TRANSPORTS, ["", "+", []], "transports has an empty list; known: shm, uv, ibv"),
        (TRANSPORTS, ["shm+uv+shm"], "transports names one twice: shm+uv+shm"),
        (DEVICES, ["0+cuda:0", []], "devices must be different device indices (0+1), got {raw!r}"),
        (DEVICES, ["cpu", "-1"], "devices takes device indices from 0, got {raw!r}"),
        (DEVICE_MAPS, ["worker1", ":0-1", "worker1:0", "worker1:0-1-2", "a:0-1/", ""],
         "device_maps is written CALLEE:HERE-THERE (worker1:0-1), got {raw!r}"),
        (DEVICE_MAPS, ["worker1:0-x"], "device_maps takes device indices from 0, got 'x'"),
        (DEVICE_MAPS, [{"worker1": {}}], "device_maps needs device pairs for 'worker1', got {{}}"),
        (DEVICE_MAPS, [{"worker1": 1}], "device_maps needs device pairs for 'worker1', got 1"),
        (DEVICE_MAPS, ["worker1:0-1+1-1", {"worker1": {"0": 1, "cuda:0": 2}}],
         "device_maps maps a device twice for 'worker1'"),
        (DEVICE_MAPS, ["worker1:0-1/worker1:1-0", "worker1:0-1+0-2"],
         "device_maps maps a device or a callee twice: {raw!r}"),
        # It would be formatted as nothing at all, which does not read back.
        (DEVICE_MAPS, [{}], "device_maps names no callee"),
        (SWITCH_INTERVAL, ["9us"], "switch_interval must be 10us to 1s, got 9us: below, threads do "
         "little but switch; above, one may stop all others for seconds"),
        (SWITCH_INTERVAL, ["soon"], "switch_interval must be a duration such as 5ms, got 'soon'"),
        (CPU_BINDING, ["equals"], "unknown cpu_binding 'equals'; did you mean equal?"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused(knob: Knob, raws: list[object], told: str) -> None:
    assert_refused(knob.read, raws, told)
