"""Private names: the last Python before C++ of every call and of the backward pass, and options.

Standard library only: it is imported in the middle of `import torch`, too.
"""

from typing import NamedTuple

PRIVATE_KEYWORDS = {"transports": "_transports", "channels": "_channels"}
"""The constructor's keyword by the name of the knob."""


class Sender(NamedTuple):
    """A C++ function that calls end in."""

    body: str
    """What then runs on the server: `python`, `builtin` or `script`."""
    timeout_place: int
    """Which of its arguments is the time limit."""
    returns_rref: bool = False
    """Whether it returns an RRef; else a future."""


SENDERS = {
    "_invoke_rpc_python_udf": Sender("python", 3),
    "_invoke_remote_python_udf": Sender("python", 3, returns_rref=True),
    "_invoke_rpc_builtin": Sender("builtin", 2),
    "_invoke_remote_builtin": Sender("builtin", 2, returns_rref=True),
    "_invoke_rpc_torchscript": Sender("script", 4),
    "_invoke_remote_torchscript": Sender("script", 2, returns_rref=True),
}
"""Names in `rpc.api`."""
BACKWARD = "dist_autograd.backward"
"""The operator that stands for the backward pass, on the rank that starts it. What the ranks send
each other meanwhile never passes through Python."""
STEP = "DistributedOptimizer.step"
"""What the calls of a step of the distributed optimizer are called."""
STEP_HELPERS = ("_local_optimizer_step", "_script_local_optimizer_step")
"""What PyTorch calls on each rank for it, in `torch.distributed.optim.optimizer`."""
