"""What comes back from a call: values, exceptions, futures."""

from typing import Any

import torch
from torch.distributed.rpc import internal

# Looked up here, for speed; `support` tells what is not there.
_RemoteException: Any = getattr(internal, "RemoteException", None)

# How torch marks the error of a call that ran past its rpc_timeout.
RPC_TIMEOUT_MARK = "RPCErr:1:"


def answer_of(error: Exception) -> Any:
    """What PyTorch answers a call whose function raised this; it prints the traceback here, too."""
    run: Any = internal._run_function
    return run(internal.PythonUDF(_raise, (error,), {}))


def _raise(error: Exception) -> None:
    raise error


def error_of(answer: Any) -> str:
    """The exception that an answer stands for, as one line; empty if it is a plain result."""
    if type(answer) is not _RemoteException:
        return ""
    return _remote_line(str(answer.msg)) or type(answer).__name__


def error_line(error: BaseException) -> str:
    """An exception in one line; one from a server as the server saw it, without its traceback."""
    message = str(error).strip()
    first = message.split("\n")[0]
    return _remote_line(message) or f"{type(error).__name__}: {first}".removesuffix(": ")


def _remote_line(message: str) -> str:
    """What went wrong on a server, from what PyTorch sends of it; empty if it is no such text."""
    where, _, what = message.partition("\n")
    return what.split("\n")[0] if "On WorkerInfo(" in where else ""


def is_future(value: Any) -> bool:
    """Whether this is a future, of Python's making or of C++'s."""
    return isinstance(value, torch._C.Future)


def is_script(value: Any) -> bool:
    """Whether this is a TorchScript module."""
    return isinstance(value, torch.jit.ScriptModule)
