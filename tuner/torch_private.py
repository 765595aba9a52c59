"""Every private name of PyTorch that the tuner touches, checked before use."""

import inspect
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api


def missing_support() -> list[str]:
    """What this torch lacks, each as a sentence; empty when the tuner can work with it."""
    if not dist.is_available() or not hasattr(rpc, "TensorPipeRpcBackendOptions"):
        return [f"torch {torch.__version__} is built without the TensorPipe RPC backend"]
    parameters = inspect.signature(rpc.TensorPipeRpcBackendOptions.__init__).parameters
    missing = [
        f"torch {torch.__version__} has no {name} in TensorPipeRpcBackendOptions"
        for name in ("_transports", "_channels")
        if name not in parameters
    ]
    if not hasattr(api, "_get_current_rpc_agent"):
        missing.append(f"torch {torch.__version__} has no rpc.api._get_current_rpc_agent")
    return missing


def tensorpipe_options(
    transports: list[str] | None, channels: list[str] | None, **public: Any
) -> rpc.TensorPipeRpcBackendOptions:
    """The options object with the transports and channels chosen, or left to PyTorch if None."""
    return rpc.TensorPipeRpcBackendOptions(**public, _transports=transports, _channels=channels)


def agent_gauges() -> dict[str, str]:
    """The running agent's own gauges, such as `agent.num_idle_threads`; empty before init_rpc."""
    try:
        agent = api._get_current_rpc_agent()  # type: ignore[attr-defined]
    except RuntimeError:
        return {}
    gauges: dict[str, str] = agent.get_debug_info()
    return gauges
