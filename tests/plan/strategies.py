"""Arbitrary values of every knob, and arbitrary configurations, for hypothesis."""

from hypothesis import strategies as st

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.knobs import (
    CHANNELS,
    CPU_BINDING,
    DEVICE_MAPS,
    DEVICES,
    INTRA_OP_THREADS,
    KNOBS,
    NUM_WORKER_THREADS,
    RPC_TIMEOUT,
    SWITCH_INTERVAL,
    TRANSPORTS,
    DeviceMaps,
    Value,
)
from tuner.plan.quantities import MOST_S


def _names(known: tuple[str, ...]) -> st.SearchStrategy[Value]:
    chosen = st.lists(st.sampled_from(known), min_size=1, unique=True).map(tuple)
    return st.none() | chosen


words = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
devices = st.integers(0, 15)


pairs = st.lists(
    st.tuples(devices, devices), min_size=1, max_size=3, unique_by=(lambda p: p[0], lambda p: p[1])
)
device_maps = st.dictionaries(words, pairs.map(sorted).map(tuple), min_size=1, max_size=3).map(
    lambda by_callee: DeviceMaps(tuple(sorted(by_callee.items())))
)
VALUES: dict[str, st.SearchStrategy[Value]] = {
    NUM_WORKER_THREADS.name: st.integers(1, 4096),
    TRANSPORTS.name: _names(TRANSPORTS.known),
    CHANNELS.name: _names(CHANNELS.known),
    RPC_TIMEOUT.name: st.floats(0, MOST_S, exclude_min=True),
    DEVICES.name: st.none()
    | st.lists(devices, min_size=1, unique=True).map(lambda d: tuple(f"cuda:{i}" for i in d)),
    DEVICE_MAPS.name: st.none() | device_maps,
    INTRA_OP_THREADS.name: st.integers(1, 4096),
    CPU_BINDING.name: st.sampled_from(CPU_BINDING.known),
    SWITCH_INTERVAL.name: st.integers(10, 1_000_000).map(lambda microseconds: microseconds / 1e6),
}


def _config(dimensions: list[Dimension]) -> st.SearchStrategy[Config]:
    return st.fixed_dictionaries({each: VALUES[each.knob] for each in dimensions}).map(Config.of)


dimensions = st.builds(Dimension, st.just(ALL_ROLES) | words, st.sampled_from(sorted(KNOBS)))
configs = st.lists(dimensions, unique=True, max_size=6).flatmap(_config)
