import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)


def mistake(knob: Knob, raw: object) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - callers check the whole message
        knob.read(raw)
    return str(caught.value)


def test_every_knob_has_its_own_name_and_says_what_it_is() -> None:
    assert set(VALUES) == set(KNOBS)
    assert all(knob.name == name and knob.summary for name, knob in KNOBS.items())


@pytest.mark.parametrize("name", sorted(KNOBS))
@given(data=st.data())
def test_formatted_values_read_back(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[name])
    assert KNOBS[name].read(KNOBS[name].format(value)) == value


@pytest.mark.parametrize("name", sorted(KNOBS))
@given(data=st.data())
def test_json_values_read_back(name: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[name])
    document = json.loads(json.dumps(KNOBS[name].to_json(value)))
    assert KNOBS[name].read(document) == value


@pytest.mark.parametrize("name", sorted(KNOBS))
@given(text=st.text())
def test_text_is_a_value_or_a_value_error(name: str, text: str) -> None:
    try:
        value = KNOBS[name].read(text)
    except ValueError:
        return
    assert KNOBS[name].read(KNOBS[name].to_json(value)) == value


@pytest.mark.parametrize("name", sorted(KNOBS))
def test_the_default_is_a_value(name: str) -> None:
    knob = KNOBS[name]
    assert knob.read(knob.format(knob.default)) == knob.default


@pytest.mark.parametrize("raw", [8, "8", " 8 ", "08"])
def test_whole_numbers(raw: object) -> None:
    assert NUM_WORKER_THREADS.read(raw) == 8


@pytest.mark.parametrize("raw", ["many", "", "8.0", 8.0, True, None, "default", [8]])
def test_what_is_no_whole_number_is_refused(raw: object) -> None:
    expected = f"num_worker_threads must be a whole number, got {raw!r}"
    assert mistake(NUM_WORKER_THREADS, raw) == expected


@pytest.mark.parametrize("raw", [0, "0", -3])
def test_a_whole_number_is_at_least_1(raw: object) -> None:
    assert mistake(NUM_WORKER_THREADS, raw) == f"num_worker_threads must be at least 1, got {raw}"


@pytest.mark.parametrize(("raw", "seconds"), [(5, 5.0), ("5", 5.0), ("0.5", 0.5), (1e3, 1000.0)])
def test_seconds(raw: object, seconds: float) -> None:
    assert RPC_TIMEOUT.read(raw) == seconds


def test_seconds_are_formatted_without_a_needless_fraction() -> None:
    assert RPC_TIMEOUT.format(60.0) == "60"
    assert RPC_TIMEOUT.format(0.5) == "0.5"


def test_different_timeouts_have_different_names() -> None:
    assert RPC_TIMEOUT.format(1234567.0) != RPC_TIMEOUT.format(1234568.0)


@pytest.mark.parametrize("raw", ["60s", "", True, None])
def test_what_is_no_number_of_seconds_is_refused(raw: object) -> None:
    assert mistake(RPC_TIMEOUT, raw) == f"rpc_timeout must be a number of seconds, got {raw!r}"


@pytest.mark.parametrize(("raw", "shown"), [(0, "0"), ("-1", "-1"), ("nan", "nan")])
def test_seconds_are_above_zero(raw: object, shown: str) -> None:
    assert mistake(RPC_TIMEOUT, raw) == f"rpc_timeout must be above 0, got {shown}"


def test_an_endless_timeout_is_refused() -> None:
    assert "inf" in mistake(RPC_TIMEOUT, "inf")


@pytest.mark.parametrize("raw", ["shm+uv", " shm + uv ", ["shm", "uv"], ("shm", "uv")])
def test_names_keep_their_order(raw: object) -> None:
    assert TRANSPORTS.read(raw) == ("shm", "uv")
    assert TRANSPORTS.read("uv+shm") == ("uv", "shm")


@pytest.mark.parametrize("raw", ["default", None])
def test_default_leaves_the_choice_to_pytorch(raw: object) -> None:
    assert TRANSPORTS.read(raw) is None
    assert TRANSPORTS.format(None) == "default"


def test_unknown_names_come_with_the_nearest_one() -> None:
    assert mistake(TRANSPORTS, "sm") == "unknown transport 'sm'; did you mean shm?"
    assert mistake(TRANSPORTS, "shm+tcp") == "unknown transport 'tcp'; known: shm, uv, ibv"
    assert mistake(CHANNELS, "bassic") == "unknown channel 'bassic'; did you mean basic?"


@pytest.mark.parametrize("raw", ["", "+", []])
def test_a_list_of_names_is_not_empty(raw: object) -> None:
    assert mistake(TRANSPORTS, raw) == "transports has an empty list; known: shm, uv, ibv"


def test_a_name_stands_once() -> None:
    assert mistake(TRANSPORTS, "shm+uv+shm") == "transports names one twice: shm+uv+shm"


@pytest.mark.parametrize("raw", ["0+1", "cuda:0+cuda:1", [0, 1], ["cuda:0", 1]])
def test_devices(raw: object) -> None:
    assert DEVICES.read(raw) == ("cuda:0", "cuda:1")


def test_one_device_may_be_a_number() -> None:
    assert DEVICES.read(1) == ("cuda:1",)


def test_devices_are_different_indices() -> None:
    expected = "devices must be different device indices (0+1), got '0+cuda:0'"
    assert mistake(DEVICES, "0+cuda:0") == expected
    assert mistake(DEVICES, []) == "devices must be different device indices (0+1), got []"
    assert mistake(DEVICES, "cpu") == "devices takes device indices from 0, got 'cpu'"
    assert mistake(DEVICES, "-1") == "devices takes device indices from 0, got '-1'"


@pytest.mark.parametrize(
    "raw",
    [
        "worker1:0-1+1-0/worker2:0-0",
        " worker2:0-0 / worker1:1-0+0-1",
        {"worker1": {"0": 1, "1": 0}, "worker2": {"cuda:0": "cuda:0"}},
    ],
)
def test_device_maps(raw: object) -> None:
    maps = DEVICE_MAPS.read(raw)
    assert maps == DeviceMaps((("worker1", ((0, 1), (1, 0))), ("worker2", ((0, 0),))))
    assert DEVICE_MAPS.format(maps) == "worker1:0-1+1-0/worker2:0-0"


@pytest.mark.parametrize("raw", ["worker1", ":0-1", "worker1:0", "worker1:0-1-2", "a:0-1/", ""])
def test_device_maps_that_cannot_be_read_are_told_how(raw: str) -> None:
    expected = f"device_maps is written CALLEE:HERE-THERE (worker1:0-1), got {raw!r}"
    assert mistake(DEVICE_MAPS, raw) == expected


def test_device_maps_need_pairs_of_indices() -> None:
    expected = "device_maps takes device indices from 0, got 'x'"
    assert mistake(DEVICE_MAPS, "worker1:0-x") == expected
    expected = "device_maps needs device pairs for 'worker1', got {}"
    assert mistake(DEVICE_MAPS, {"worker1": {}}) == expected
    expected = "device_maps needs device pairs for 'worker1', got 1"
    assert mistake(DEVICE_MAPS, {"worker1": 1}) == expected


def test_two_devices_do_not_map_onto_one() -> None:
    expected = "device_maps maps a device twice for 'worker1'"
    assert mistake(DEVICE_MAPS, "worker1:0-1+1-1") == expected


@pytest.mark.parametrize(
    "raw",
    [
        "worker1:0-1/worker1:1-0",
        "worker1:0-1+0-2",
        {"worker1": {"0": 1, "cuda:0": 2}},
    ],
)
def test_a_device_or_a_callee_mapped_twice_is_refused(raw: object) -> None:
    assert "worker1" in mistake(DEVICE_MAPS, raw)


def test_device_maps_name_a_callee() -> None:
    # An empty map would be formatted as nothing at all, which does not read back.
    assert mistake(DEVICE_MAPS, {})


def test_a_switch_interval_is_a_duration_within_reason() -> None:
    assert SWITCH_INTERVAL.read("0.2ms") == SWITCH_INTERVAL.read(0.0002) == 0.0002
    assert SWITCH_INTERVAL.format(0.005) == "5ms"
    assert mistake(SWITCH_INTERVAL, "9us") == (
        "switch_interval must be 10us to 1s, got 9us: below, threads do little but switch; above, "
        "one may stop all others for seconds"
    )
    assert "must be 10us to 1s, got 2s" in mistake(SWITCH_INTERVAL, "2s")
    assert mistake(SWITCH_INTERVAL, "soon").startswith("switch_interval must be a duration")


def test_an_unknown_binding_is_told_with_what_there_is() -> None:
    assert CPU_BINDING.read("equal") == "equal"
    assert "did you mean equal?" in mistake(CPU_BINDING, "equals")
