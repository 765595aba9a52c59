"""The client's end of calls: hooks into `rpc.api`, and requests that bypass them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FunctionType
from typing import Any, NamedTuple, Protocol

import torch
from torch.distributed.rpc import api, internal, rref_proxy
from torch.distributed.rpc.constants import UNSET_RPC_TIMEOUT
from torch.futures import Future

from tuner.torch_private.senders import SENDERS

# The C++ functions that calls end in, with what then runs on the server.
# Looked up once, for speed; `support` reports what is missing.
PY_RREF: Any = getattr(api, "PyRRef", None)
_local_invoke: Any = getattr(rref_proxy, "_local_invoke", None)
_local_invoke_async_execution: Any = getattr(rref_proxy, "_local_invoke_async_execution", None)
_find_builtin: Any = getattr(torch.jit._builtins, "_find_builtin", None)
_profiler_enabled: Any = getattr(torch.autograd, "_profiler_enabled", None)
_send_udf: Any = getattr(api, "_invoke_rpc_python_udf", None)
# What `init_rpc` and `shutdown` call on other ranks.
_OWN_CALLS = {
    getattr(api, name, None)
    for name in ("_gather_to_leader", "_broadcast_to_followers", "_update_group_membership")
}
_KINDS = {mode: f"rpc_{mode.value}" for mode in internal.RPCExecMode}


class CallTarget(NamedTuple):
    """What a call is about to run, and where."""

    kind: str
    """`rpc_sync`, `rpc_async`, `rpc_remote` or `to_here`."""
    function: str
    """The name in PyTorch's profiles; `Class.method` for a proxy's call; empty for to_here."""
    server: str
    server_rank: int
    worker: Any = None
    """PyTorch's own WorkerInfo."""
    timeout_s: float = UNSET_RPC_TIMEOUT
    """As it was given; known only for calls that go through `call_python`."""


class ClientHooks(Protocol):
    """What a tracer does at the client's end of a call; see `hooked_client`."""

    is_issuing: bool
    """Whether to record calls that begin now; calls that have begun are recorded to their end."""

    def counted(self, server: str, body: str, by: int) -> None:
        """A call is about to be sent (1), or could not be sent after it was counted (-1)."""

    def call_python(
        self,
        target: CallTarget,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Future[Any]:
        """Make an `rpc_sync` or `rpc_async` call of a plain Python function; returns its future."""

    def opened(
        self, target: CallTarget, inner: AbstractContextManager[Any]
    ) -> AbstractContextManager[Any]:
        """Any other call begins. The context ends when the call is issued, or could not be.

        On entry it returns what `inner` does, which is PyTorch's own profiling context.
        """

    def wrapped(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        method: str | None,
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """What to send in place of the Python function of the call that was opened last.

        `method` is `Class.method` if a proxy makes the call.
        """

    def issuing_to(self) -> str | None:
        """The server of the call that this thread is issuing; None if there is none."""

    def sent(self, body: str, future: Future[Any]) -> None:
        """The call that this thread is issuing was sent.

        `future` is complete once the call is answered or has failed.
        """

    def fetching(self, target: CallTarget, fetch: Callable[[], Any]) -> Any:
        """Fetch an RRef's value from its owner, and return it."""


@contextmanager
def hooked_client(hooks: ClientHooks) -> Iterator[None]:
    """Make each call that Python issues go through `hooks`, however the caller imported the API.

    The hooks replace names that `rpc.api` looks up in each call: the function that `rpc_sync` and
    `rpc_async` share; and for `remote`, and for what does not run as plain Python, the profiling
    context, the constructor of what is pickled, and the C++ functions that calls end in.
    """
    senders = {
        name: _hooked_sender(hooks, getattr(api, name), body) for name, body in SENDERS.items()
    }
    here = _replaced(
        api,
        _invoke_rpc=_hooked_invoke(hooks),
        _enable_rpc_profiler=_hooked_profiling(hooks),
        PythonUDF=_hooked_udf(hooks),
        **senders,
    )
    with here, _replaced(PY_RREF, to_here=_hooked_to_here(hooks)):
        yield


def _hooked_invoke(hooks: ClientHooks) -> Callable[..., Any]:
    """What `rpc_sync` and `rpc_async` share."""
    private: Any = api
    invoke_rpc = private._invoke_rpc
    # Most programs repeat few different calls.
    known: dict[tuple[Any, str, Any, float], CallTarget] = {}

    def invoke(
        to: Any, func: Any, mode: Any, args: Any = None, kwargs: Any = None, timeout: float = -1
    ) -> Any:
        target = known.get((func, to, mode, timeout)) if type(func) is FunctionType else None
        if target is None:
            if not _is_plain_python(func):
                return invoke_rpc(to, func, mode, args, kwargs, timeout)
            target = _python_target(to, func, mode, args, timeout)
            if type(func) is FunctionType and type(to) is str and not _is_proxy(func):
                known[func, to, mode, timeout] = target
        # The legacy profiler must see the call.
        legacy = _profiler_enabled() and private._get_should_profile()
        if legacy or not hooks.is_issuing:
            return invoke_rpc(to, func, mode, args, kwargs, timeout)
        hooks.counted(target.server, "python", 1)
        try:
            return hooks.call_python(target, func, args or (), kwargs or {})
        except BaseException:
            hooks.counted(target.server, "python", -1)
            raise

    return invoke


def _hooked_profiling(hooks: ClientHooks) -> Callable[..., Any]:
    """The profiling context of a call."""
    private: Any = api
    profiling = private._enable_rpc_profiler

    def enable(
        should_profile: bool, qualified_name: str | None, func: Any, mode: Any, worker: Any
    ) -> AbstractContextManager[Any]:
        inner = profiling(should_profile, qualified_name, func, mode, worker)
        if not hooks.is_issuing or _is_of_rpc_itself(func):
            return inner  # type: ignore[no-any-return]
        name = qualified_name or _function_name(func)
        return hooks.opened(CallTarget(_KINDS[mode], name, worker.name, worker.id), inner)

    return enable


def _hooked_udf(hooks: ClientHooks) -> Callable[..., Any]:
    """The constructor of what is pickled."""
    private: Any = api
    udf = private.PythonUDF

    def make_udf(func: Any, args: Any, kwargs: Any) -> Any:
        method = _method_of_proxy(args) if _is_proxy(func) else None
        return udf(*hooks.wrapped(func, args, kwargs, method))

    return make_udf


def _hooked_sender(hooks: ClientHooks, send: Callable[..., Any], body: str) -> Callable[..., Any]:
    """A C++ function that calls end in; `body` is what then runs on the server."""

    def send_and_tell(*args: Any, **kwargs: Any) -> Any:
        if (server := hooks.issuing_to()) is None:
            return send(*args, **kwargs)
        hooks.counted(server, body, 1)
        try:
            result = send(*args, **kwargs)
        except BaseException:
            hooks.counted(server, body, -1)
            raise
        future: Any = result._get_future() if isinstance(result, PY_RREF) else result
        hooks.sent(body, future)
        return result

    return send_and_tell


def _hooked_to_here(hooks: ClientHooks) -> Callable[..., Any]:
    """The fetch of an RRef's value."""
    to_here = PY_RREF.to_here

    def fetch(rref: Any, *args: Any, **kwargs: Any) -> Any:
        if rref.is_owner() or not hooks.is_issuing:
            return to_here(rref, *args, **kwargs)
        owner = rref.owner()
        hooks.counted(owner.name, "fetch", 1)
        target = CallTarget("to_here", "", owner.name, owner.id)
        return hooks.fetching(target, lambda: to_here(rref, *args, **kwargs))

    return fetch


def send_python(target: CallTarget, request: object) -> Any:
    """Send an object that is unpickled as a `python_request`; returns the future of the answer.

    It does what `rpc_async` does, but bypasses the hooks.
    """
    pickler: Any = api._default_pickler
    pickled, tensors = pickler.serialize(request)
    return _send_udf(target.worker, pickled, tensors, target.timeout_s, False)


def python_request(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None
) -> Any:
    """The object that a server runs, with this function in it."""
    return internal.PythonUDF(func, args, kwargs or {})


def _python_target(to: Any, func: Any, mode: Any, args: Any, timeout: float) -> CallTarget:
    """The target of a call of a plain Python function."""
    private: Any = api
    worker = private._to_worker_info(to)
    name = _method_of_proxy(args) if _is_proxy(func) else _function_name(func)
    return CallTarget(_KINDS[mode], name, worker.name, worker.id, worker, timeout)


def time_limit_s(target: CallTarget) -> float:
    """The seconds after which PyTorch fails a call; 0 for never."""
    private: Any = api
    unset = target.timeout_s == UNSET_RPC_TIMEOUT
    return float(private.get_rpc_timeout()) if unset else target.timeout_s


@contextmanager
def _replaced(place: Any, **names: Any) -> Iterator[None]:
    before = {name: getattr(place, name) for name in names}
    for name, value in names.items():
        setattr(place, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(place, name, value)


def _is_plain_python(func: Any) -> bool:
    """Whether this runs as Python on the server, and its return value is the answer."""
    return (
        callable(func)
        and not _is_of_rpc_itself(func)
        and not hasattr(func, "_wrapped_async_rpc_function")
        and not isinstance(func, torch.jit.ScriptFunction)
        and _find_builtin(func) is None
    )


def _is_of_rpc_itself(func: Any) -> bool:
    """Whether `init_rpc` or `shutdown` makes this call: it is none of the program's."""
    return type(func) is FunctionType and func in _OWN_CALLS


def _is_proxy(func: Any) -> bool:
    """Whether this is what proxies such as `rref.rpc_sync()` send."""
    return func is _local_invoke or func is _local_invoke_async_execution


def _method_of_proxy(args: tuple[Any, ...]) -> str:
    """`Class.method`, from what a proxy sends."""
    rref, method = args[0], args[1]
    with suppress(Exception):
        # The proxy has already asked for the type, which the RRef keeps.
        return f"{rref._get_type(blocking=False).value().__qualname__}.{method}"
    return str(method)


def _function_name(func: Any) -> str:
    if isinstance(func, torch.jit.ScriptFunction):
        return str(torch._jit_internal._qualified_name(func))
    # PyTorch has no name for a callable object: use its class.
    return str(getattr(func, "__qualname__", type(func).__qualname__))
