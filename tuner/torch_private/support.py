"""Checks that this torch has what the tuner needs."""

import inspect
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api, internal, rref_proxy

from tuner.torch_private.answers import Future
from tuner.torch_private.calls import PY_RREF
from tuner.torch_private.private_names import PRIVATE_KEYWORDS, SENDERS


def missing_support() -> list[str]:
    """What this torch lacks, each as a sentence; empty if the tuner works with it."""
    if not dist.is_available() or not hasattr(rpc, "TensorPipeRpcBackendOptions"):
        return [f"torch {torch.__version__} is built without the TensorPipe RPC backend"]
    parameters = inspect.signature(rpc.TensorPipeRpcBackendOptions.__init__).parameters
    missing = [
        f"torch {torch.__version__} has no {name} in TensorPipeRpcBackendOptions"
        for name in PRIVATE_KEYWORDS.values()
        if name not in parameters
    ]
    if not hasattr(api, "_get_current_rpc_agent"):
        missing.append(f"torch {torch.__version__} has no rpc.api._get_current_rpc_agent")
    return missing + missing_tracing_support(operators=True)


def missing_tracing_support(*, operators: bool) -> list[str]:
    """What this torch lacks for tracing calls, and `operators` too, each as a sentence."""
    of_calls = (
        "_invoke_rpc", "_enable_rpc_profiler", "_get_should_profile", "_to_worker_info",
        "_default_pickler", "get_rpc_timeout",
    )  # fmt: skip
    needed = {
        "rpc.api": (api, [*of_calls, *SENDERS]),
        "rpc.internal": (
            internal,
            [
                "PythonUDF",
                "RemoteException",
                "_get_current_rpc_agent",
                "_internal_rpc_pickler",
                "_thread_local_tensor_tables",
                "deserialize",
            ],
        ),
        "rpc.PyRRef": (PY_RREF, ["_get_future", "_get_type", "to_here"]),
        "rpc.rref_proxy": (rref_proxy, ["_local_invoke", "_local_invoke_async_execution"]),
        "_C._profiler": (torch._C._profiler, ["_ExperimentalConfig"]),
        "autograd.profiler": (torch.autograd.profiler, ["_is_profiler_enabled"]),
        "autograd": (torch.autograd, ["_profiler_enabled"]),
        "jit._builtins": (torch.jit._builtins, ["_find_builtin"]),
        "distributed.autograd": (torch.distributed.autograd, ["backward"]),
        "_C.Future": (Future, ["add_done_callback", "done", "then"]),
    }
    missing = [
        f"torch {torch.__version__} has no {where}.{name}, which tracing needs"
        for where, (place, names) in needed.items()
        for name in names
        if not hasattr(place, name)
    ]
    if operators:
        config: Any = torch._C._profiler._ExperimentalConfig
        try:
            config(profile_all_threads=True)
        except TypeError:
            missing.append(
                f"torch {torch.__version__} cannot record the operators of all threads: torch 2.7 "
                "can"
            )
    return missing
