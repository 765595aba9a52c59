"""The ranks of a world, and what rank 0 has the others do; it imports nothing of the tuner."""

import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import PyRRef
from torch.distributed.rpc import api, internal

_dismissed = threading.Event()


def dismiss() -> None:
    """Let the main thread of a rank other than rank 0 continue to its end."""
    _dismissed.set()


_hammering = threading.Event()
_hammers: list[threading.Thread] = []


def start_hammering(name: str) -> None:
    """Call another rank all the time from several threads, each in a different way."""
    _hammering.set()
    few, many = list(range(100)), list(range(100_000))  # the long list takes longer to pickle
    ways: list[Callable[[], object]] = [
        lambda: rpc.rpc_sync(name, len, args=(few,)),
        lambda: rpc.remote(name, len, args=(many,)).to_here(),
        lambda: rpc.rpc_async(name, len, args=(many,)).wait(),
    ]

    def hammer(way: Callable[[], object]) -> None:
        while _hammering.is_set():
            way()

    _hammers.extend(threading.Thread(target=hammer, args=(way,)) for way in ways)
    for thread in _hammers:
        thread.start()


def stop_hammering() -> None:
    _hammering.clear()
    while _hammers:
        _hammers.pop().join()


def profile_nothing(**options: Any) -> None:
    """A profile of an empty block."""
    from tuner.trace.record.profile import profile

    with profile(**options):
        pass


_finders, _modules = list[Any](), dict[str, ModuleType]()


def hide_tuner() -> None:
    """Act as if the package were not installed in this process, where no module is found now."""
    names = [name for name in sys.modules if name.partition(".")[0] == "tuner"]
    _modules.update({name: sys.modules.pop(name) for name in names})
    _finders[:] = sys.meta_path
    sys.meta_path.clear()


def show_tuner() -> None:
    sys.meta_path[:] = _finders
    sys.modules.update(_modules)


_real_time_ns = time.time_ns


def become_another_host(ahead_ns: int, drift: float) -> None:
    """Set this process's Unix time ahead, and make it go faster by a share; 0 ends that."""
    from tuner.trace.record import client, server  # the recorder imports the function itself
    from tuner.trace.record.clock import HOST_VARIABLE

    begun_ns = _real_time_ns()

    def faked_ns() -> int:
        now_ns = _real_time_ns()
        return now_ns + ahead_ns + round((now_ns - begun_ns) * drift)

    for module in (time, client, server):
        module.time_ns = faked_ns if ahead_ns else _real_time_ns  # type: ignore[attr-defined]
    os.environ[HOST_VARIABLE] = "elsewhere" if ahead_ns else ""


def _names_of_rpc() -> dict[str, int]:
    """The ids of all callables in RPC's modules, by name."""
    places: dict[str, Any] = {"api": api, "internal": internal, "rpc": rpc, "RRef": PyRRef}
    return {
        f"{place}.{name}": id(value)
        for place, holder in places.items()
        for name, value in vars(holder).items()
        if callable(value)
    }


_names_at_start = _names_of_rpc()


def left_behind() -> list[str]:
    """What tracing left behind in this process."""
    gc.collect()  # errors and their frames refer to each other
    now = _names_of_rpc()
    changed = {name for name, value in _names_at_start.items() if now.get(name) != value}
    files = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            files.append(str(each.readlink()))
    return [
        *sorted(changed),
        *(f"pickler.{name}" for name in vars(internal._internal_rpc_pickler) if name[0] != "_"),
        *(f"open: {name}" for name in files if name.endswith("schedstat")),
        # torch.autograd._profiler_enabled() tells of this thread only.
        *(["a profiler is on"] if torch.autograd.profiler._is_profiler_enabled else []),
    ]


def refusal(func: Callable[[], object]) -> tuple[str, str]:
    """The type and the message of the error that it raises; empty if it raises none."""
    try:
        func()
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def everywhere(func: Callable[[], Any]) -> dict[str, Any]:
    """What it returns in each process, by name."""
    return {name: rpc.rpc_sync(name, func) for name in NAMES}


NAMES = ("worker0", "worker1", "worker2")
THREADS = 4


def join(rank: int, store: Path) -> None:
    """Make this process a rank of the world."""
    torch.set_num_threads(1)
    os.environ.update(TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=THREADS,
        init_method=f"file://{store}",
        rpc_timeout=60,
        # Three processes that busy-poll would leave no time on two CPUs for anything else.
        _transports=["uv"],
    )
    rpc.init_rpc(  # type: ignore[no-untyped-call]
        NAMES[rank], rank=rank, world_size=len(NAMES), rpc_backend_options=options
    )


def run_other_rank() -> None:
    """Be the rank that the arguments say, until rank 0 ends, or dismisses this one."""
    ctypes.CDLL(None).prctl(1, 9)  # the kernel ends it together with its parent
    join(int(sys.argv[1]), Path(sys.argv[2]))
    _dismissed.wait()
    with suppress(RuntimeError):
        rpc.shutdown()
