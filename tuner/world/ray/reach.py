"""Which transports and channels can carry calls between hosts."""

from collections.abc import Iterator

from tuner.plan.config import Config
from tuner.plan.knobs import KNOBS
from tuner.plan.space import Space

WITHIN_A_HOST = {
    "transports": {"shm": "shared memory"},
    "channels": {
        "cma": "another process's memory",
        "cuda_ipc": "the memory of another process's GPU",
    },
}
"""What works only between processes of one host, and through what."""


def unreachable(space: Space, baseline: Config, hosts: int) -> Iterator[str]:
    """What of a search space, and of its baseline, cannot carry calls between so many hosts."""
    named = [(dimension, [value]) for dimension, value in baseline.items]
    for dimension, values in (*space.axes, *named):
        local = WITHIN_A_HOST.get(dimension.knob, {})
        for value in values:
            names = value if isinstance(value, tuple) else ()
            if names and all(name in local for name in names):
                through = " and ".join(dict.fromkeys(local[str(name)] for name in names))
                yield (
                    f"{dimension}={KNOBS[dimension.knob].format(value)} works through {through}, "
                    f"and the ranks are on {hosts} hosts; name one that crosses them too"
                )
