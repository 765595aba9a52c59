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


@st.composite
def device_maps(draw: st.DrawFn) -> Value:
    callees = draw(st.lists(words, min_size=1, max_size=3, unique=True))
    by_callee = []
    for callee in sorted(callees):
        here = draw(st.lists(devices, min_size=1, max_size=3, unique=True))
        there = draw(st.permutations(range(len(here))))
        by_callee.append((callee, tuple(sorted(zip(here, there, strict=True)))))
    return DeviceMaps(tuple(by_callee))


VALUES: dict[str, st.SearchStrategy[Value]] = {
    NUM_WORKER_THREADS.name: st.integers(1, 4096),
    TRANSPORTS.name: _names(TRANSPORTS.known),
    CHANNELS.name: _names(CHANNELS.known),
    RPC_TIMEOUT.name: st.floats(0, MOST_S, exclude_min=True),
    DEVICES.name: st.none()
    | st.lists(devices, min_size=1, unique=True).map(lambda d: tuple(f"cuda:{i}" for i in d)),
    DEVICE_MAPS.name: st.none() | device_maps(),
    INTRA_OP_THREADS.name: st.integers(1, 4096),
    CPU_BINDING.name: st.sampled_from(CPU_BINDING.known),
    SWITCH_INTERVAL.name: st.integers(10, 1_000_000).map(lambda microseconds: microseconds / 1e6),
}


@st.composite
def config_values(draw: st.DrawFn) -> Config:
    dimensions = draw(
        st.lists(
            st.builds(Dimension, st.just(ALL_ROLES) | words, st.sampled_from(sorted(KNOBS))),
            unique=True,
            max_size=6,
        )
    )
    return Config.of({dimension: draw(VALUES[dimension.knob]) for dimension in dimensions})
