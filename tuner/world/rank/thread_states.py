"""What the threads of a rank are doing: those of RPC in numbers, and whether one waits; and what
answers so in a rank of a program.

`wait` of a future and `to_here` of an RRef are C++, so the thread has no frame in them. Its
innermost Python frame shows which call of the source it is in, and of which object. Objects are
looked up without running any code; a thread whose object cannot be found that way does not count.
"""

import ast
import concurrent.futures.thread
import dis
import faulthandler
import linecache
import math
import os
import threading
import time
import traceback
from collections import ChainMap
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import lru_cache
from inspect import getattr_static, unwrap
from itertools import islice
from pathlib import Path
from socket import SHUT_RD
from types import FrameType, ModuleType
from typing import Any

import torch.distributed
import torch.distributed.rpc as rpc
from torch.futures import Future, collect_all, wait_all

from tuner.daemon_threads import frames_of_others, running_daemons, start_daemon
from tuner.torch_private.agent import agent_gauges
from tuner.torch_private.calls import PY_RREF
from tuner.world.socket_channel import SocketChannel

_FUTURE = Future.__mro__[1]
"""The C++ class: what `rpc_async` gives is none of Python's `Future`."""
_WAITS: dict[str, type] = {"wait": _FUTURE, "to_here": PY_RREF}
"""The methods that wait, each with its class."""
_TO_HERE = unwrap(PY_RREF.to_here)
"""As PyTorch has it: in a program, and while a world is traced, the class has one of ours."""
_GIVES: tuple[tuple[Callable[..., Any], type], ...] = (
    (rpc.rpc_async, _FUTURE),
    (rpc.remote, PY_RREF),
    (collect_all, _FUTURE),
)
"""Functions whose result is waited for without a name."""
_WAITERS = (Future.wait.__code__, wait_all.__code__)
"""Python that does nothing but call the C++ `wait`."""
_DISTRIBUTED = str(Path(torch.distributed.__file__).parent)
"""There threads wait for other ranks: in `shutdown`, `rpc_sync` or `barrier`."""
_POOL_WORKER: Any = concurrent.futures.thread._worker
_UNKNOWN = object()
_AGAIN_S = 1.0
_COUNT_S, _COUNT_SHARE = 0.1, 0.01  # the time between two counts: at least, and of that so far
_COUNTED = ("calls", "cpu_s", "failed", "functions")
_SERVING_FILE = "torch/distributed/rpc/internal.py"
_GAUGES = {
    "pool_size": "thread_pool_size",
    "idle": "num_idle_threads",
    "serving": "server_active_calls",
    "calling": "client_active_calls",
}


def waits_for_answer(innermost: FrameType) -> bool:
    """Whether a thread whose innermost frame this is waits in a torch future or an RRef."""
    if innermost.f_code in _WAITERS:
        return True
    if (call := _call_under_way(innermost)) is None:
        return False
    if isinstance(call.func, ast.Attribute) and (kind := _WAITS.get(call.func.attr)):
        return issubclass(_type_of(call.func.value, innermost), kind)
    return _value_of(call.func, innermost) is _TO_HERE


def may_go_on(innermost: FrameType) -> bool:
    """Whether a thread may go on without another thread or rank: when a time is over, or a file,
    a socket or a process has something for it. So may one that is not known to wait."""
    file = innermost.f_code.co_filename
    # In the program's own frames this would keep its objects for longer.
    if file == threading.__file__:
        return innermost.f_locals.get("timeout") not in (None, -1)
    if file.startswith(_DISTRIBUTED):
        limit = innermost.f_locals.get("timeout")
        return isinstance(limit, int | float) and limit > 0
    is_idle = innermost.f_code is _POOL_WORKER.__code__
    return not is_idle and not waits_for_answer(innermost)


def _call_under_way(frame: FrameType) -> ast.Call | None:
    """The call in the source that the frame is in; None where it is in none, or has no source."""
    code = frame.f_code
    if "CALL" not in dis.opname[code.co_code[frame.f_lasti]]:
        return None
    # One position for each code unit of two bytes.
    _, line, _, column = next(islice(code.co_positions(), frame.f_lasti // 2, None))
    return _calls_by_end(code.co_filename).get((line, column))


@lru_cache(maxsize=64)
def _calls_by_end(filename: str) -> dict[tuple[int | None, int | None], ast.Call]:
    """The calls of a file, by line and column of their closing brackets: no two share one."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return {}
    return {
        (node.end_lineno, node.end_col_offset): node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }


def _type_of(expression: ast.expr, frame: FrameType) -> type:
    if not isinstance(expression, ast.Call):
        return type(_value_of(expression, frame))
    called = expression.func
    if isinstance(called, ast.Attribute) and called.attr == "then":
        kind = _type_of(called.value, frame)
        return _FUTURE if issubclass(kind, _FUTURE) else object
    function = _value_of(called, frame)
    return next((kind for known, kind in _GIVES if known is function), object)


def _value_of(expression: ast.expr, frame: FrameType) -> Any:
    """What a name, an attribute or an item is now; _UNKNOWN where that takes running code."""
    match expression:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            places = ChainMap(frame.f_locals, frame.f_globals, frame.f_builtins)
            return places.get(name, _UNKNOWN)
        case ast.Attribute(value=of, attr=name):
            holder = _value_of(of, frame)
            if isinstance(holder, ModuleType):
                return vars(holder).get(name, _UNKNOWN)
            # A property stays one here: its value is unknown.
            return getattr_static(holder, name, _UNKNOWN)
        case ast.Subscript(value=of, slice=at):
            holder, key = _value_of(of, frame), _value_of(at, frame)
            if type(holder) in (list, tuple, dict) and type(key) in (int, str):
                with suppress(LookupError, TypeError):
                    return holder[key]
    return _UNKNOWN


def rpc_state() -> dict[str, Any]:
    """What the threads of the agent's pool are doing, in numbers; None where the agent has none.
    `pool_size` and `idle` are threads; `serving` and `calling` calls under way, to this process and
    from it; `waiting` the threads that wait for an answer inside a request that they serve, or
    inside a callback of a future; `in_callbacks` those of them that do so in a callback."""
    gauges = agent_gauges()
    texts = {name: gauges.get(f"agent.{gauge}", "") for name, gauge in _GAUGES.items()}
    known = {name: int(text) if text.isdecimal() else None for name, text in texts.items()}
    frames = frames_of_others().items()
    serving = {ident for ident, frame in frames if _serves_request(frame)}
    # A thread that Python knows runs no callback but those it is itself the cause of.
    others = {ident for ident, _ in frames} - serving - {each.ident for each in _known_threads()}
    waiting = {ident for ident, f in frames if ident in serving | others and waits_for_answer(f)}
    return {**known, "waiting": len(waiting), "in_callbacks": len(waiting & others)}


def _serves_request(innermost: FrameType) -> bool:
    frames = traceback.walk_stack(innermost)
    return any(frame.f_code.co_filename.endswith(_SERVING_FILE) for frame, _ in frames)


def _known_threads() -> list[threading.Thread]:
    """Those that Python has started; a thread of the agent is at most a dummy to it."""
    return [e for e in threading.enumerate() if not isinstance(e, threading._DummyThread)]


class Prober:
    """Answers for one process of a program what it is doing, whenever the launcher asks, and counts
    its calls unasked, where that is wanted. A thread listens, from before the rendezvous, in which
    a rank may wait without end, as long as the process lasts, which may start RPC again."""

    def __init__(
        self, folder: Path, connect: Callable[[], Any],
        standing: Callable[[], Mapping[str, object]], report: Callable[..., None], *,
        counts: bool = False,
    ) -> None:  # fmt: skip
        """Stacks go to the folder; `connect` gives a connection to the launcher, and `standing`
        what goes with each answer."""
        self._counts = counts
        self._began_s = self._next_count_s = time.monotonic()
        self._folder = folder
        self._connect = connect
        self._standing = standing
        self._report = report
        self._thread: threading.Thread | None = None

    def begin(self, name: str, rank: int) -> None:
        """Answer under this name from now on."""
        self._name, self._rank = name, rank
        # A fork of the process has no such thread any more.
        if self._thread is None or not self._thread.is_alive():
            is_over = _IsOver()
            self._thread = start_daemon(
                lambda _: self._answer(is_over), "rpc-tuner probe", is_over=is_over
            )

    def _answer(self, is_over: "_IsOver") -> None:
        while not is_over.is_set():
            # Else the launcher is gone, or there is no descriptor now.
            with (
                suppress(OSError, EOFError),
                closing(SocketChannel(self._connect())) as channel,
            ):
                is_over.connection = channel.connection
                channel.send({"kind": "listening", "pid": os.getpid(), "time_ns": time.time_ns()})
                while not is_over.is_set():
                    wait_s = self._count() if self._counts else math.inf
                    with suppress(TimeoutError):
                        self._take(channel.awaited(wait_s))
            is_over.connection = None
            is_over.wait(_AGAIN_S)

    def _take(self, question: Any) -> None:
        if question["more"] == "stacks":
            path = self._folder / f"{self._name}-{os.getpid()}.stacks"
            with suppress(OSError), path.open("w") as file:
                faulthandler.dump_traceback(file)
        self._report(
            "answer", number=question["number"], name=self._name, rank=self._rank,
            monotonic_s=time.monotonic(),
            **(_of_program() if question["more"] == "threads" else _NOT_ASKED),
            **rpc_state(), **self._standing(),
        )  # fmt: skip

    def _count(self) -> float:
        """Report the calls made so far, the more seldom the longer the process lasts; the seconds
        to the next time."""
        if (now_s := time.monotonic()) >= self._next_count_s:
            self._next_count_s = now_s + _COUNT_SHARE * (now_s - self._began_s)
            did = self._standing()
            counted = {fact: did[fact] for fact in _COUNTED if fact in did}
            self._report("count", monotonic_s=now_s, **counted)
        return max(_COUNT_S, self._next_count_s - now_s)


class _IsOver(threading.Event):
    """Also ends the waiting for a question."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: Any = None
        self._pid = os.getpid()

    def set(self) -> None:
        """See `threading.Event`; not for the process that this one was forked from."""
        super().set()
        if self.connection is not None and self._pid == os.getpid():
            with suppress(OSError):
                self.connection.shutdown(SHUT_RD)


_NOT_ASKED: Mapping[str, object] = {"busy_s": None, "sleeps": False, "daemon_sleeps": False}


def _of_program() -> Mapping[str, object]:
    """What the program's own threads do: `busy_s`, their CPU seconds so far, if the kernel says it;
    `sleeps`, whether one may go on without any other thread or rank; `daemon_sleeps`, whether a
    daemon thread may."""
    daemons = {thread.ident for thread in _known_threads() if thread.daemon}
    ours = {daemon.ident for daemon in running_daemons()}
    frames = frames_of_others().items()
    awake = {ident for ident, frame in frames if ident not in ours and may_go_on(frame)}
    sleeps, daemon_sleeps = bool(awake - daemons), bool(awake & daemons)
    return {"busy_s": _busy_s(), "sleeps": sleeps, "daemon_sleeps": daemon_sleeps}


def _busy_s(tasks: Path = Path("/proc/self/task")) -> float | None:
    """Without the threads of the agent that look for messages, some without a break."""
    busy_ns = 0
    ours = {thread.native_id for thread in running_daemons()}
    for task in tasks.iterdir():
        try:
            if int(task.name) in ours or (task / "comm").read_text().startswith("TP_"):
                continue
            busy_ns += int((task / "schedstat").read_text().split()[0])
        except (OSError, IndexError):
            if task.exists():  # else it has ended just now
                return None
    return busy_ns / 1e9
