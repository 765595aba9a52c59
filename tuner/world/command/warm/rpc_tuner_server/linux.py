"""What Linux can do for processes and their ends, and `os` cannot."""

import contextlib
import ctypes
import platform
import sys
from collections.abc import Callable, Iterable, Iterator

from . import descendants

_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
_CLONE = {"x86_64": 56, "aarch64": 220}
_libc = ctypes.CDLL(None)


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Take the orphans among the descendants as children, for a moment."""
    before = ctypes.c_int()
    _libc.prctl(_GET_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    descendants.keep_orphans()
    try:
        yield
    finally:
        _libc.prctl(_SET_SUBREAPER, before.value, 0, 0, 0)


def fork_unseen() -> int:
    """As `os.fork()`, but `os.wait()` does not see the child: its end sends no signal.

    OSError also where the kind of processor is not known.
    """
    number = _CLONE.get(platform.machine())
    if number is None:
        raise OSError(f"no call of clone is known for {platform.machine()}")
    # Holds the GIL, as a fork needs it.
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    pid = ctypes.PyDLL(None).syscall(number, 0, None, None, None, None)
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("no process can be forked")
    return int(pid)


def keep_to_the_end(names: Iterable[str]) -> None:
    """Have this process, and its forks, end without freeing the modules of these names.

    That would take longer than many a program: their pages are shared with the server up to then.
    Of C libraries, no static destructor is called: PyTorch's take a quarter of a second of CPU. A
    process that `multiprocessing` has forked frees nothing either. All that is the program's own
    ends as ever, except objects that a library still holds then, for which Python promises nothing.
    """
    # Handlers run in reverse order, so before those of the libraries that are loaded now, and
    # after those of later ones. Each is called with the exit status.
    _libc.on_exit(_libc._exit, None)
    _libc.on_exit(_libc.fcloseall, None)
    sys.__interactivehook__ = _Keeper(
        getattr(sys, "__interactivehook__", None), {name: sys.modules[name] for name in names}
    )


class _Keeper:
    """Takes modules out of `sys.modules` as Python begins to free those that are there.

    Python drops what is `sys.__interactivehook__` just before, and when no import works any more.
    """

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
