"""Waits in a Python process until `torch.distributed.rpc` is imported, and hooks it then. Standard
library only: it runs in the program's own interpreter, before the program."""

import _socket
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

RPC_MODULE = "torch.distributed.rpc"
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("package", "reports", "channel"), (str,)),
    **dict.fromkeys(("options", "process"), (dict,)),
    **dict.fromkeys(("say", "learn", "counts", "probe"), (bool,)),
    "roles": (list,),
    "ranks": (int, type(None)),
    "recording": (dict, type(None)),
}
"""What the order must hold."""
_READ_AT_IMPORT = (
    "BLIS_", "GLIBC_", "GOMP_", "KMP_", "LANG", "LC_", "LD_", "MALLOC_", "MKL_", "NUMEXPR_", "OMP_",
    "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH", "TRITON_", "VECLIB_",
)  # fmt: skip
"""How variables begin that Python or a library reads once, as it is loaded."""
_LONGEST_ADDRESS = 107
"""Bytes of a socket's address; the path of a folder may have more."""
_MOST_WAIT = (1).to_bytes(8, sys.byteorder) + bytes(8)
"""A second, and no microseconds, as the kernel has it: so long it waits to connect, and to send, to
a tool that is stopped. Then the message is lost."""
_SET_LATER = "PYTHONWARNINGS"
"""It can be put into effect at any time, and libraries set it for the children they start."""
_OUR_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep  # noqa: PTH100, PTH120 - late


class Reports:
    """Sends what happens in this process, over a connection for each message: a program may fork,
    and close what it has not opened. With `learn` also what it has imported by its first
    `init_rpc`."""

    def __init__(self, channel: str, learn: bool = False) -> None:
        self._channel = channel
        self._learn = learn
        self._known_as, self._namespace = 0, dict[str, int]()

    def connect(self) -> Any:
        """A connection to the tool, as a `_socket.socket`; OSError if it has ended, or is stopped
        and takes no more."""
        connection = _socket.socket(_socket.AF_UNIX)
        try:
            connection.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDTIMEO, _MOST_WAIT)
            self._reach(connection)
        except OSError:
            connection.close()
            raise
        return connection

    def _reach(self, connection: Any) -> None:
        if len(os.fsencode(self._channel)) <= _LONGEST_ADDRESS:
            connection.connect(self._channel)
            return
        folder, _, name = self._channel.rpartition("/")
        at = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        try:
            connection.connect(f"/proc/self/fd/{at}/{name}")
        finally:
            os.close(at)

    def send(self, kind: str, **facts: object) -> None:
        """Send a message, if the tool is there and takes it."""
        if kind == "init_rpc" and self._learn:
            self._learn = False
            environment = read_at_import(os.environ)
            self.send("imported", modules=installed_modules(), environment=environment)
        line = {"kind": kind, "pid": os.getpid(), "time_ns": time.time_ns(), **facts}
        if self._known_as != os.getpid():  # also in a fork
            self._known_as = os.getpid()
            with suppress(OSError):  # in which its id is one: a sandbox has one of its own
                namespace = os.stat("/proc/self/ns/pid")  # noqa: PTH116 - pathlib takes a while
                self._namespace = {"pid_namespace": namespace.st_ino}
        with suppress(OSError):
            connection = self.connect()
            try:
                # By default the signal of a tool that has ended would end the program.
                text = json.dumps(line | self._namespace, default=repr).encode() + b"\n"
                connection.sendall(text, _socket.MSG_NOSIGNAL)
            finally:
                connection.close()


def is_installed(name: str, file: str) -> bool:
    """Whether a module's file belongs to Python or to a package that is not there to be edited. The
    tool itself does not, wherever it is: a process of the program loads it once there is an order.
    """
    if name.partition(".")[0] == "tuner" or file.startswith(_OUR_FOLDER):
        return False
    is_package = {"site-packages", "dist-packages"} & {*file.split("/")}
    return bool(is_package) or file.startswith(_of_python())


@cache
def _of_python() -> tuple[str, ...]:
    """Python's own folders; it takes a while to find them, and there are many modules."""
    import sysconfig

    return tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))


def installed_modules() -> list[str]:
    """The modules that are imported now, in that order, without the program's own ones."""
    return [
        name
        for name, module in [*sys.modules.items()]
        if isinstance(file := getattr(module, "__file__", None), str)
        # Otherwise it cannot be imported by that name: `torch.ops`, `six.moves`.
        and getattr(getattr(module, "__spec__", None), "name", None) == name
        and is_installed(name, file)
    ]


def read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that have their effect as a library is imported, and none later."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_IMPORT) and name != _SET_LATER
    }


def install(text: str) -> None:
    """Hook `torch.distributed.rpc` as it is imported, or now if it is there; `text` is the order as
    `tuner.world.command.order` writes it."""
    order = _read(text)
    reports = Reports(order["channel"], order["learn"])
    reports.send("started")
    if not order["say"]:
        _take_warnings(reports)
    hook = partial(_hook, order=order, reports=reports)
    if RPC_MODULE in sys.modules:
        hook(sys.modules[RPC_MODULE])
    else:
        sys.meta_path.insert(0, _Finder(hook))


def _take_warnings(reports: Reports) -> None:
    """Report what PyTorch's own code does that is deprecated, in place of printing it: nobody who
    runs the program can change that, and it stands above what they look for."""
    import warnings

    show = warnings.showwarning

    def shown(message: Any, category: Any, filename: str, *where: Any, **more: Any) -> None:
        if "/torch/" in filename and "deprecated" in str(message):
            reports.send("warned", warning=f"{category.__name__}: {message}")
        else:
            show(message, category, filename, *where, **more)

    warnings.showwarning = shown


def _read(text: str) -> dict[str, Any]:
    """The order; ValueError if it is none."""
    order = json.loads(text)
    if not isinstance(order, dict):
        raise ValueError(f"the order is no object: {text[:60]!r}")
    if wrong := [key for key, kinds in _KINDS.items() if type(order.get(key)) not in kinds]:
        raise ValueError(f"the order has no valid {' and '.join(wrong)}")
    return order


def _hook(rpc: ModuleType, order: dict[str, Any], reports: Reports) -> None:
    # Imported late: these import torch, in the middle of whose import the hook is set.
    def new_recorder(name: str, rank: int) -> Any:
        from tuner.trace.record.program_recorder import ProgramRecorder

        return ProgramRecorder(name, rank, Path(order["reports"]), order["recording"], reports.send)

    def new_prober(standing: Any) -> Any:
        from tuner.world.rank.thread_states import Prober

        folder, counts = Path(order["reports"]), order["counts"]
        return Prober(folder, reports.connect, standing, reports.send, counts=counts)

    # At the end: what the program can import goes before what we bring.
    sys.path.append(order["package"])
    try:
        from pathlib import Path

        from tuner.torch_private.programs import ProgramHooks

        # Early: what it registers to be done at the end comes after what the program registers.
        importlib.import_module("tuner.daemon_threads")
        from tuner.world.rank.own_end import OwnEnd

        end = OwnEnd(reports.send)
        end.install()
        recorder = None if order["recording"] is None else new_recorder
        prober = new_prober if order["probe"] else None
        hooks = ProgramHooks(rpc, order, reports.send, recorder, prober)
        hooks.install()
        end.counted = hooks.outcomes
    except Exception as error:  # the program comes first
        reports.send("hook-failed", error=repr(error))


class _Finder:
    """Finds the RPC module as Python would, and hooks it once it is loaded."""

    def __init__(self, hook: Callable[[ModuleType], None]) -> None:
        self._hook = hook

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the RPC module with a loader that hooks it; None for every other name."""
        if name != RPC_MODULE:
            return None
        found = (each.find_spec(name, path, target) for each in sys.meta_path if each is not self)
        spec = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_hook(module: ModuleType) -> None:
                load(module)
                if module.__name__ == RPC_MODULE:
                    self._hook(module)

            spec.loader.exec_module = load_and_hook  # type: ignore[method-assign]
        return spec
