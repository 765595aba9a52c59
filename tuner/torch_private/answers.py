"""What a call returns: values, exceptions, futures."""

from typing import Any

import torch
from torch.distributed.rpc import internal

# Looked up once, for speed; `support` reports what is missing.
_RemoteException: Any = getattr(internal, "RemoteException", None)

# How torch marks the error of a call that ran past its rpc_timeout.
RPC_TIMEOUT_MARK = "RPCErr:1:"


def answer_of(error: Exception) -> Any:
    """PyTorch's answer to a call whose function raised this; also prints the traceback here."""
    run: Any = internal._run_function
    return run(internal.PythonUDF(_raise, (error,), {}))


def _raise(error: Exception) -> None:
    raise error


def error_of(answer: Any) -> str:
    """The exception in an answer as one line; empty if the answer is a plain result."""
    if type(answer) is not _RemoteException:
        return ""
    return _remote_line(str(answer.msg)) or type(answer).__name__


def error_line(error: BaseException) -> str:
    """An exception as one line; if a server raised it, the server's line without the traceback."""
    message = str(error).strip()
    first = message.split("\n")[0]
    return _remote_line(message) or f"{type(error).__name__}: {first}".removesuffix(": ")


def _remote_line(message: str) -> str:
    """The server's error, from the text that PyTorch sends of it; empty for any other text."""
    where, _, what = message.partition("\n")
    return what.split("\n")[0] if "On WorkerInfo(" in where else ""


def is_future(value: Any) -> bool:
    """Whether this is a future, made by Python or by C++."""
    return isinstance(value, torch._C.Future)


def is_script(value: Any) -> bool:
    """Whether this is a TorchScript module."""
    return isinstance(value, torch.jit.ScriptModule)
