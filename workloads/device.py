"""Where tensors live: the CPU, or a GPU where there is one."""

from collections.abc import Sequence
from typing import Literal

import torch

Device = Literal["cpu", "cuda"]


def missing_device(device: str) -> Sequence[str]:
    """What is wrong with the option `device` on this machine, in sentences."""
    if device == "cuda" and not torch.cuda.is_available():
        return ["option device is cuda, and PyTorch finds no GPU here"]
    return ()
