"""The client's end of calls: hooks into `rpc.api`, by names that it looks up in each call."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pickle import GLOBAL, Pickler, dumps
from time import time_ns
from types import FunctionType
from typing import Any, NamedTuple
from zlib import crc32

import torch
from torch.distributed import autograd
from torch.distributed.rpc import api, backend_registry, internal, rref_proxy
from torch.distributed.rpc.constants import UNSET_RPC_TIMEOUT

from tuner.torch_private.answers import Future
from tuner.torch_private.callbacks import callback_hooks
from tuner.torch_private.exceptions import unseen_in_tracebacks, without_our_frames
from tuner.torch_private.private_names import BACKWARD, SENDERS, STEP, STEP_HELPERS, Sender
from tuner.torch_private.sites import definition_of

# Looked up once, for speed; `support` reports what is missing.
PY_RREF: Any = getattr(api, "PyRRef", None)
_local_invoke: Any = getattr(rref_proxy, "_local_invoke", None)
_local_invoke_async_execution: Any = getattr(rref_proxy, "_local_invoke_async_execution", None)
_find_builtin: Any = getattr(torch.jit._builtins, "_find_builtin", None)
_profiler_enabled: Any = getattr(torch.autograd, "_profiler_enabled", None)
_internal_pickler: Any = getattr(internal, "_internal_rpc_pickler", None)
_tensor_receiver: Any = getattr(_internal_pickler, "_tensor_receiver", None)
_api: Any = api
_default_s: Any = getattr(api, "get_rpc_timeout", None)
# What `init_rpc` and `shutdown` call on other ranks.
_OWN_CALLS = {
    getattr(place, name, None)
    for place, name in (
        (api, "_gather_to_leader"),
        (api, "_broadcast_to_followers"),
        (api, "_update_group_membership"),
        (backend_registry, "_get_device_infos"),
    )
}
_OPTIMIZER = "torch.distributed.optim.optimizer"
_STEP_HELPERS = tuple(f"{_OPTIMIZER}.{name}" for name in STEP_HELPERS)
_PLAIN_TYPES = frozenset(
    {type(None), bool, int, float, complex, str, bytes, torch.Tensor, FunctionType, PY_RREF}
)
_all_plain = _PLAIN_TYPES.issuperset
_all_simple = (_PLAIN_TYPES - {torch.Tensor, PY_RREF}).issuperset
# More values than this are not looked at: that would take longer than it saves.
_FEW = 16
_MOST_KNOWN = 1000
_SOME_BYTES = 1024
_KINDS = {mode: f"rpc_{mode.value}" for mode in internal.RPCExecMode}


class CallTarget(NamedTuple):
    """What a call is about to run, and where."""

    kind: str
    """`rpc_sync`, `rpc_async`, `rpc_remote` or `to_here`."""
    function: str
    """The name in PyTorch's profiles; `Class.method` for a proxy's call; empty for to_here."""
    server: str
    server_rank: int
    defined: str = ""
    """Where the Python function is defined, `store.py:9`; empty if that is not known."""


_Client = Any
"""What the hooks notify: a `tuner.trace.record.client.Client`, of a higher layer."""


@contextmanager
def hooked_client(client: _Client) -> Iterator[None]:
    """Make each call that Python issues go through `client`, however the caller imported the API.

    The hooks replace what `rpc_sync` and `rpc_async` share, and for what does not run as plain
    Python the profiling context of a call and the C++ functions that calls end in. Between them
    runs PyTorch's own code: a program sees the same objects and tracebacks as without hooks.
    """
    calls = {
        "_invoke_rpc": _hooked_invoke(client),
        "_enable_rpc_profiler": _hooked_profiling(client),
        **{name: _hooked_sender(client, getattr(api, name), how) for name, how in SENDERS.items()},
    }
    with (
        _replaced(api, **calls),
        _replaced(PY_RREF, to_here=_hooked_to_here(client)),
        _replaced(autograd, backward=_hooked_backward(client)),
        _replaced(Future, **callback_hooks(client.callbacks)),
    ):
        yield


def _hooked_invoke(client: _Client) -> Callable[..., Any]:
    """What `rpc_sync` and `rpc_async` share: every line that it runs slows the program."""
    invoke_rpc = _api._invoke_rpc
    # As it is before it is hooked here, but with what counts the calls of a program.
    send = _api._invoke_rpc_python_udf
    # Most programs repeat few different calls.
    known: dict[tuple[Any, Any, Any], tuple[CallTarget, Any, bytes]] = {}

    def plain_target(
        to: Any, func: Any, mode: Any, args: Any
    ) -> tuple[CallTarget, Any, bytes] | None:
        if (
            (function := name_in_pickles(func)) is None
            or _is_of_rpc_itself(func)
            or hasattr(func, "_wrapped_async_rpc_function")
            or _find_builtin(func) is not None
        ):
            return None
        worker = _api._to_worker_info(to)
        if not client.can_read(worker.name):
            return None
        if func is _local_invoke:
            name, defined = _method_of_proxy(args)
        else:
            name, defined = _function_name(func), definition_of(func)
        target = CallTarget(_KINDS[mode], name, worker.name, worker.id, defined)
        # A function within another one may keep the program's values alive.
        is_lasting = func.__closure__ is None and func is not _local_invoke and type(to) is str
        # In a group of workers that may change, a name may come to mean another worker.
        if is_lasting and _is_group_static() and len(known) < _MOST_KNOWN:
            known[to, func, mode] = target, worker, function
        return target, worker, function

    def invoke(
        to: Any, func: Any, mode: Any, args: Any = None, kwargs: Any = None, timeout: float = -1
    ) -> Any:
        try:
            if (
                client.is_issuing
                and type(func) is FunctionType
                # Code of the program that pickles is to have PyTorch's own frames below it.
                and _api._default_pickler is _internal_pickler
                and (args is None or (type(args) is tuple and _is_plain(args)))
                and (kwargs is None or (type(kwargs) is dict and _is_plain(kwargs.values())))
                # The legacy profiler must see the call.
                and not (_profiler_enabled() and _api._get_should_profile())
            ):
                found = known.get((to, func, mode))
                try:
                    if found is None or _named(func) is not func:
                        found = plain_target(to, func, mode, args)
                    if found is not None:
                        target, worker, function = found
                        return client.call_python(
                            target, worker, function, args or (), kwargs or {}, timeout, send
                        )
                except Exception:
                    found = None  # It was not sent: PyTorch itself is to raise why.
            return invoke_rpc(to, func, mode, args, kwargs, timeout)
        except BaseException as error:
            without_our_frames(error)
            raise

    return invoke


def _is_plain(values: Any) -> bool:
    """Whether no code of the program runs where these are pickled; few are looked at."""
    if len(values) > _FEW:
        return False
    if _all_plain(map(type, values)):
        return True
    for value in values:
        kind = type(value)
        if kind in _PLAIN_TYPES:
            continue
        if kind is tuple or kind is list:
            if not _is_plain(value):
                return False
        elif kind is not dict or not (_is_plain(value.keys()) and _is_plain(value.values())):
            return False
    return True


def pickled_plainly(args: Any, kwargs: Any) -> tuple[bytes, list[Any]]:
    """Arguments and keywords as one pickle, and their tensors, as PyTorch's pickler makes them.

    Only for what `_is_plain` holds of: its own code is most of the time that PyTorch takes.
    """
    if _all_simple(map(type, args)) and _all_simple(map(type, kwargs.values())):
        return dumps((args, kwargs)), []
    tensors: list[Any] = []

    def reduce_tensor(tensor: Any) -> tuple[Any, ...]:
        tensors.append(tensor)
        return _tensor_receiver, (len(tensors) - 1,)

    file = BytesIO()
    pickler = Pickler(file)
    pickler.dispatch_table = {
        torch.Tensor: reduce_tensor, PY_RREF: _internal_pickler._py_rref_reducer
    }  # fmt: skip
    pickler.dump((args, kwargs))
    return file.getvalue(), tensors


def checksum_of(pickled: bytes) -> tuple[int, int]:
    """What equal pickles have in common, and others hardly; of a large one, some bytes count."""
    return len(pickled), crc32(pickled[:: len(pickled) // _SOME_BYTES + 1])


def name_in_pickles(func: Any) -> bytes | None:
    """How a pickle names a function; None if it is not found by that name."""
    if _named(func) is not func:
        return None
    return GLOBAL + f"{func.__module__}\n{func.__qualname__}\n".encode()


def _named(func: Any) -> Any:
    """What a module has by the name of this function."""
    found: Any = sys.modules.get(func.__module__)
    try:
        for name in func.__qualname__.split("."):
            found = getattr(found, name)
    except AttributeError:
        return None
    return found


def _is_group_static() -> bool:
    """Whether all workers were known when the agent was started; False before that."""
    with suppress(RuntimeError):
        return bool(getattr(_api._get_current_rpc_agent(), "is_static_group", False))
    return False


def _hooked_profiling(client: _Client) -> Callable[..., Any]:
    profiling = _api._enable_rpc_profiler

    def enable(
        should_profile: bool, qualified_name: str | None, func: Any, mode: Any, worker: Any
    ) -> Any:
        inner = profiling(should_profile, qualified_name, func, mode, worker)
        if not client.is_issuing or _is_of_rpc_itself(func):
            return inner
        if func is _local_invoke or func is _local_invoke_async_execution:
            name, defined = _method_of_proxy(sys._getframe(1).f_locals["args"])
        else:
            name = qualified_name or _function_name(func)
            defined = "" if qualified_name else definition_of(func)
        target = CallTarget(_KINDS[mode], name, worker.name, worker.id, defined)
        return client.opened(target, inner)

    return enable


def _hooked_sender(client: _Client, send: Callable[..., Any], how: Sender) -> Callable[..., Any]:
    body, timeout_place, returns_rref = how

    @unseen_in_tracebacks
    def send_and_note(*args: Any, **kwargs: Any) -> Any:
        call = client.issuing()
        if call is None:
            return send(*args, **kwargs)
        call.body, call.timeout_s = body, limit_s(args[timeout_place])
        pickled = None
        if body == "python":
            worker, pickled, tensors, timeout_s, is_async = args
            client.packed(call, pickled, tensors)
            call.answers_plainly = not (returns_rref or is_async)
        to_send = client.sending(call, pickled)
        if pickled is not None:
            args = (worker, to_send, tensors, timeout_s, is_async)
        try:
            result = send(*args, **kwargs)
        except BaseException:
            client.not_sent(call)
            raise
        if returns_rref:
            client.holds(call, result)
        client.sent(call, result._get_future() if returns_rref else result)
        return result

    return send_and_note


def limit_s(timeout_s: float) -> float:
    """The seconds after which PyTorch fails a call with this timeout; 0 for never."""
    return float(_default_s()) if timeout_s == UNSET_RPC_TIMEOUT else timeout_s


def _hooked_to_here(client: _Client) -> Callable[..., Any]:
    to_here = PY_RREF.to_here

    @unseen_in_tracebacks
    def fetch(rref: Any, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        if rref.is_owner() or not client.is_issuing:
            return to_here(rref, timeout)
        owner = rref.owner()
        target = CallTarget("to_here", "", owner.name, owner.id)
        return client.fetching(target, limit_s(timeout), lambda: to_here(rref, timeout), rref)

    return fetch


def _hooked_backward(client: _Client) -> Callable[..., None]:
    private: Any = autograd
    backward = private.backward

    @unseen_in_tracebacks
    def run(*args: Any, **kwargs: Any) -> None:
        start_ns = time_ns()
        try:
            backward(*args, **kwargs)
        finally:
            if client.is_issuing:
                client.noted(BACKWARD, start_ns)

    return run


@contextmanager
def _replaced(place: Any, **names: Any) -> Iterator[None]:
    before = {name: getattr(place, name) for name in names}
    for name, value in names.items():
        # It has the name, the text and the signature of what it stands for.
        setattr(place, name, functools.update_wrapper(value, before[name], updated=()))
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(place, name, value)


def _is_of_rpc_itself(func: Any) -> bool:
    """Whether `init_rpc` or `shutdown` makes this call: it is none of the program's."""
    return type(func) is FunctionType and func in _OWN_CALLS


def _method_of_proxy(args: tuple[Any, ...]) -> tuple[str, str]:
    """`Class.method`, and where that is defined, from what a proxy sends."""
    rref, method = args[0], args[1]
    with suppress(Exception):
        # The proxy has already asked for the type, which the RRef keeps.
        kind = rref._get_type(blocking=False).value()
        return f"{kind.__qualname__}.{method}", definition_of(kind, method)
    return str(method), ""


def _function_name(func: Any) -> str:
    if isinstance(func, torch.jit.ScriptFunction):
        name = str(torch._jit_internal._qualified_name(func))
        return STEP if name.endswith(_STEP_HELPERS) else name
    if getattr(func, "__module__", "") == _OPTIMIZER and func.__name__ in STEP_HELPERS:
        return STEP
    # PyTorch has no name for a callable object: use its class.
    return str(getattr(func, "__qualname__", type(func).__qualname__))
