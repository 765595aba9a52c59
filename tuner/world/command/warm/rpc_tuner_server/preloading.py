"""Imports modules beforehand, but those with which a process cannot be forked: threads, sockets and
devices do not survive that, and a program's own files may change between two runs."""

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from . import descendants

_SECONDS_TO_LEAVE = 0.5
_SHARED = ("socket:", "pipe:", "anon_inode:", "/dev/nvidia", "/dev/dri", "/dev/kfd")
"""What a descriptor may point at that two processes cannot both use."""


def preload(
    modules: Sequence[str], is_installed: Callable[[str, str], bool], *, one_by_one: bool,
    are_named: bool = False,
) -> dict[str, object]:  # fmt: skip
    """Import modules in this order; those that are not there are passed over, and where they are
    those that a program's files name, `are_named`, its own too. `one_by_one` each is tried in a
    process of its own first, which takes twice the time. Returns `unfit`, why this process cannot
    be forked now, and `left_out`, why modules are not imported."""
    why_unfit = partial(_why_unfit, is_installed, {*sys.modules}, _descriptors().keys())
    left_out: dict[str, str] = {}
    gc.disable()
    for name in modules:
        if name in sys.modules or (are_named and _is_own(name, is_installed)):
            continue
        reason = _tried(name, why_unfit) if one_by_one else None
        if reason is None:
            _import(name)
        else:
            left_out[name] = reason
    unfit = why_unfit()
    gc.enable()
    gc.collect()
    # A garbage collection in a child would write to every object's header, and so copy every page.
    gc.freeze()
    return {"unfit": unfit, "left_out": left_out}


def keep_to_the_end(names: Iterable[str]) -> None:
    """Have this process, and its forks, end without freeing the modules of these names.

    That would take longer than many a program: their pages are shared with the server up to then.
    Of C libraries, no static destructor is called: PyTorch's take a quarter of a second of CPU. All
    that is the program's own ends as ever, except objects that a library still holds then.
    """
    # Handlers run in reverse order, so before those of the libraries that are loaded now, and
    # after those of later ones. Each is called with the exit status.
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)
    libc.on_exit(libc.fcloseall, None)
    sys.__interactivehook__ = _Keeper(
        getattr(sys, "__interactivehook__", None), {name: sys.modules[name] for name in names}
    )


class _Keeper:
    """Takes modules out of `sys.modules` as Python begins to free those that are there: just before
    it drops what is `sys.__interactivehook__`, when no import works any more."""

    def __init__(self, hook: Callable[[], None] | None, modules: dict[str, object]) -> None:
        self._hook = hook
        self._modules = modules
        # For ever: nothing of them may be freed.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(modules))

    def __call__(self) -> None:
        if self._hook is not None:
            self._hook()

    def __del__(self) -> None:
        present = sys.modules
        for name, module in self._modules.items():
            if present.get(name) is module:
                del present[name]


def _why_unfit(
    is_installed: Callable[[str, str], bool], modules: Collection[str], descriptors: Collection[int]
) -> str | None:
    """Why a fork of this process would not be what it is; None if it would. Which modules and
    descriptors there were before the first import is given."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in modules or not isinstance(file, str) or not Path(file).is_absolute():
            continue
        if not is_installed(name, file):
            return f"it imports {name}, a file of the program or of rpc-tuner"
    if _has_children():
        return "it starts a process"
    # A library may end its threads before a fork, and start them again when they are needed.
    if _found_by_a_fork(_uses_cuda) != "":
        return "it uses CUDA"
    if names := _threads():
        return f"it leaves a thread ({', '.join(names)})"
    for number, target in _descriptors().items():
        if number not in descriptors and target.startswith(_SHARED):
            return f"it leaves an open {target.partition(':')[0]}"
    return None


def _import(name: str) -> None:
    """Import a module; what is wrong with it is for the program to find."""
    with contextlib.suppress(Exception, SystemExit):
        importlib.import_module(name)


def _is_own(name: str, is_installed: Callable[[str, str], bool]) -> bool:
    """Whether a module is in a file of the program, or of a package that is there to be edited."""
    with contextlib.suppress(Exception):
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec is not None and spec.has_location and spec.origin is not None:
            return not is_installed(name, spec.origin)
    return False


def _tried(name: str, why_unfit: Callable[[], str | None]) -> str | None:
    """Why a process is unfit that imports this module; None if it is fit."""

    def import_it() -> str:
        _import(name)
        return why_unfit() or ""

    reason = _found_by_a_fork(import_it)
    descendants.end_descendants(os.getpid())
    return "its import ends the process" if reason is None else reason or None


def _found_by_a_fork(look: Callable[[], str]) -> str | None:
    """What a fork of this process finds, that leaves no trace; None if it does not end well."""
    answer = os.memfd_create("found")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Python 3.12 on, of threads
        pid = os.fork()
    if pid == 0:
        try:
            os.write(answer, look().encode())
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    os.lseek(answer, 0, os.SEEK_SET)
    with os.fdopen(answer, "rb") as file:
        return None if status else file.read().decode()


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _uses_cuda() -> str:
    cuda = sys.modules.get("torch.cuda")
    return "yes" if cuda is not None and (cuda._is_in_bad_fork() or cuda.is_initialized()) else ""


def _threads() -> list[str]:
    """The names of all threads but the main one, once those that are ending have ended."""
    deadline = time.monotonic() + _SECONDS_TO_LEAVE
    while True:
        names = []
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):
                if int(task.name) != os.getpid():
                    names.append((task / "comm").read_text().strip())
        if not names or time.monotonic() > deadline:
            return names
        time.sleep(0.01)


def _descriptors() -> dict[int, str]:
    """What each open descriptor points at."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[int(entry.name)] = str(entry.readlink())
    return found
