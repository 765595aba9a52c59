"""What the scenarios of the traced program share; runs in rank 0."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.distributed.rpc import rpc_sync

if TYPE_CHECKING:
    from tuner.trace.record.profile import Profile

THREADS = 4
NAP_S = 0.5
WORK_S = 0.05
AHEAD_NS, DRIFT = 7_000_000_000, 0.02
NAMES = ("worker0", "worker1", "worker2")
Facts = dict[str, Any]

folder = Path()
"""Where the traces are written; set when the program starts."""


@contextmanager
def profiled(name: str, **options: Any) -> "Iterator[Profile]":
    """Profile the block, and write the trace."""
    from tuner.trace.record.profile import profile

    with profile(**options) as prof:
        yield prof
    prof.export_perfetto(folder / f"{name}.json")


def refusal(func: Callable[[], object]) -> tuple[str, str]:
    """The type and the message of the error that it raises; empty if it raises none."""
    try:
        func()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def profile_nothing(**options: Any) -> None:
    """A profile of an empty block."""
    from tuner.trace.record.profile import profile

    with profile(**options):
        pass


def everywhere(func: Callable[[], Any]) -> dict[str, Any]:
    """What it returns in each process, by name."""
    return {name: rpc_sync(name, func) for name in NAMES}


def plain(value: Any) -> Any:
    """A result as JSON has it."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value
