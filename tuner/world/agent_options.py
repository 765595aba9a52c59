"""The options of `init_rpc` that one process of a configuration gets."""

from collections.abc import Mapping
from typing import Any

from tuner.plan.knobs import KNOBS, Value


def agent_options(values: Mapping[str, Value]) -> dict[str, Any]:
    """What `tuner.torch_private.agent.tensorpipe_options` takes.

    Args:
        values: One process's values, by knob. Where a value is None, or missing, PyTorch's default
            holds.

    Returns:
        Each value by its knob's name, in the form that TensorPipeRpcBackendOptions takes.
    """
    return {
        name: knob.to_option(value)
        for name, knob in KNOBS.items()
        if knob.is_init_rpc_option and (value := values.get(name)) is not None
    }
