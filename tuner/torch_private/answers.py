"""What a call returns: values, exceptions, futures; and the functions that return them."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.distributed.rpc import internal

from tuner.torch_private.exceptions import served

# Looked up once, for speed; `support` reports what is missing.
ScriptModule: Any = torch.jit.ScriptModule
Tensor = torch.Tensor
Future: Any = torch._C.Future
"""The class of all futures, made by Python or by C++."""
_internal: Any = internal
_RemoteException: Any = getattr(internal, "RemoteException", None)

_SOME = 16
# How torch marks the error of a call that ran past its rpc_timeout.
RPC_TIMEOUT_MARK = "RPCErr:1:"


@contextmanager
def hooked_answers(
    raised: Callable[[str], None],
    reduced: Callable[[Any], tuple[Any, ...] | None],
    is_quick: Callable[[], bool],
    quickly_pickled: Callable[[Any], tuple[bytes, list[Any]] | None],
) -> Iterator[None]:
    """Make each answer that is an exception, or quickly pickled, go through these.

    `raised` gets the exception in one line, on the thread of the function that raised it, while
    PyTorch makes the answer of it. `reduced` says how to pickle that answer, None for PyTorch's
    way. If `is_quick` says so of the next answer of this thread, it is pickled by
    `quickly_pickled`, which returns None for PyTorch's way.
    """
    current_agent, reducers = _internal._get_current_rpc_agent, _reducers()

    # Of all that PyTorch does with an exception, this comes first.
    def agent_of_error() -> Any:
        if (error := sys.exc_info()[1]) is not None:
            raised(error_line(error))
        return current_agent()

    def reduce(answer: Any) -> tuple[Any, ...]:
        return reduced(answer) or answer.__reduce_ex__(2)

    pickler = _internal._internal_rpc_pickler
    kind: Any = type(pickler)

    class WithQuickAnswers(kind):  # type: ignore[misc]
        # A property, so that no frame of ours is below what the program pickles.
        @property
        def serialize(self) -> Callable[[Any], tuple[bytes, list[Any]]]:
            plainly: Callable[[Any], tuple[bytes, list[Any]]] = super().serialize
            if not is_quick():
                return plainly
            return lambda answer: quickly_pickled(answer) or plainly(answer)

    _internal._get_current_rpc_agent, reducers[_RemoteException] = agent_of_error, reduce
    pickler.__class__ = functools.update_wrapper(WithQuickAnswers, kind, updated=())
    try:
        yield
    finally:
        pickler.__class__ = kind
        _internal._get_current_rpc_agent = current_agent
        del reducers[_RemoteException]


def tensors_sent() -> tuple[int, int]:
    """How many tensors go with what this thread is pickling, and their bytes, by some of many."""
    sent = getattr(_internal._thread_local_tensor_tables, "send_tables", ())
    some = sent[:: len(sent) // _SOME + 1]
    return len(sent), bytes_of(some) * len(sent) // max(len(some), 1)


def bytes_of(tensors: Iterable[Any]) -> int:
    """The bytes of tensors; those of sparse ones, and others without storage, are not counted."""
    size = 0
    for tensor in tensors:
        if type(tensor) is not Tensor:
            size += _bytes_of_subclass(tensor)
        elif tensor.layout is torch.strided:
            size += tensor.nbytes
    return size


def _bytes_of_subclass(tensor: Any) -> int:
    """The same of one whose class may be the program's: its `__torch_function__` is not run."""
    with suppress(Exception), torch._C.DisableTorchFunctionSubclass():
        if tensor.layout is torch.strided:
            return int(tensor.nbytes)
    return 0


def received_tensor(number: int) -> Any:
    """The tensor of this number that came with what this thread unpickles."""
    return _internal._thread_local_tensor_tables.recv_tables[number]


def pickle_as_tuple(kind: type[tuple[Any, ...]]) -> None:
    """Have PyTorch's pickler take the items of a tuple for what its `__reduce_ex__` returns."""
    with suppress(AttributeError):
        _reducers()[kind] = tuple


def _reducers() -> dict[Any, Any]:
    """Those of the pickler of all answers, by type."""
    reducers: dict[Any, Any] = _internal._internal_rpc_pickler._dispatch_table
    return reducers


def error_of(answer: Any) -> str:
    """The exception in an answer as one line; empty if the answer is a plain result."""
    if type(answer) is not _RemoteException:
        return ""
    return _line(str(answer.msg), type(answer).__name__)


def error_line(error: BaseException) -> str:
    """An exception as one line; if a server raised it, the server's line without the traceback."""
    message = str(error).strip()
    first = message.split("\n")[0]
    return _line(message, f"{type(error).__name__}: {first}".removesuffix(": "))


def _line(message: str, otherwise: str) -> str:
    """The server's error, if PyTorch sent this text of it."""
    raised = served(message, innermost=False)
    return (raised and raised.shown) or otherwise
