"""The options of the RPC agent, and what the running agent reports."""

from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api

from tuner.torch_private.private_names import PRIVATE_KEYWORDS

_CALLS_IN_SCRIPTS = " = prim::rpc_"  # and `sync`, `async` or `remote`, in a graph


def tensorpipe_options(**options: Any) -> rpc.TensorPipeRpcBackendOptions:
    """The options object with these values, private ones by their public names."""
    named = {PRIVATE_KEYWORDS.get(name, name): value for name, value in options.items()}
    return rpc.TensorPipeRpcBackendOptions(**named)


def agent_gauges() -> dict[str, str]:
    """The running agent's own gauges, such as `agent.num_idle_threads`; empty before init_rpc."""
    try:
        agent = api._get_current_rpc_agent()  # type: ignore[attr-defined]
    except RuntimeError:
        return {}
    gauges: dict[str, str] = agent.get_debug_info()
    return gauges


def all_workers() -> list[tuple[int, str]]:
    """Rank and RPC name of every process of the running agent. RuntimeError before init_rpc."""
    agent = api._get_current_rpc_agent()  # type: ignore[attr-defined]
    return sorted((info.id, info.name) for info in agent.get_worker_infos())


def worker_threads() -> int | None:
    """The size of the running agent's thread pool; None if it does not report it."""
    size = agent_gauges().get("agent.thread_pool_size", "")
    return int(size) if size.isdecimal() else None


def scripts_call() -> bool:
    """Whether TorchScript that this process has compiled makes calls, which Python never sees."""
    state: Any = getattr(torch.jit, "_state", None)
    unit = getattr(state, "_python_cu", None)
    return unit is not None and any(_CALLS_IN_SCRIPTS in str(f.graph) for f in unit.get_functions())


def default_timeout_s() -> float:
    """The running agent's `rpc_timeout`: what calls get that name none of their own."""
    private: Any = api
    return float(private.get_rpc_timeout())
