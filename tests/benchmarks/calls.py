"""The step that both sides of the benchmark run; imports no more than the recipe does."""

from collections.abc import Sequence

import torch
import torch.distributed.rpc as rpc


def call_all(servers: Sequence[str]) -> None:
    """One small call to each server, all in flight at once."""
    futures = [rpc.rpc_async(name, torch.add, args=(torch.ones(10), 1)) for name in servers]
    for future in futures:
        future.wait()
