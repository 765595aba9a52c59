"""The step that both sides of the benchmark run; it imports no more than the recipe does."""

from collections.abc import Sequence

import torch
import torch.distributed.rpc as rpc


def call_all(servers: Sequence[str]) -> None:
    """Make one small call to each server, all in parallel."""
    futures = [rpc.rpc_async(name, torch.add, args=(torch.ones(10), 1)) for name in servers]
    for future in futures:
        future.wait()
