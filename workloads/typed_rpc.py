"""Types for a part of PyTorch that has none."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed.rpc as rpc

Func = TypeVar("Func", bound=Callable[..., Any])

async_execution: Callable[[Func], Func] = rpc.functions.async_execution
