"""What the options object of `init_rpc` is given for settings."""

from collections.abc import Mapping
from typing import Any

from tuner.plan.knobs import DeviceMaps, Value


def agent_options(values: Mapping[str, Value]) -> dict[str, Any]:
    """The options by the knob's name, for the values that one process gets.

    Knobs that are None or missing are left out: PyTorch's default holds.
    """
    found: dict[str, Any] = {}
    for name in ("num_worker_threads", "rpc_timeout", "transports", "channels", "devices"):
        if (value := values.get(name)) is not None:
            found[name] = list(value) if isinstance(value, tuple) else value
    if isinstance(maps := values.get("device_maps"), DeviceMaps):
        found["device_maps"] = {
            callee: {f"cuda:{here}": f"cuda:{there}" for here, there in pairs}
            for callee, pairs in maps.by_callee
        }
    return found
