"""Ends a process without taking apart what was imported for it beforehand.

That would take longer than many a program: each object of it is freed, in pages that this process
shares with the server up to then. A process that `multiprocessing` has forked does not do it
either. All that is the program's own ends as ever: threads are waited for, what was registered
with `atexit` is called, streams are flushed, modules and objects of the program are freed, except
those that a library still holds then, for which Python promises nothing either.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable

_libc = ctypes.CDLL(None)


def keep_to_the_end(names: Iterable[str]) -> None:
    """Have this process, and its forks, end without freeing what is loaded now.

    Args:
        names: The modules that stay. Of C libraries, no static destructor is called; PyTorch's
            take a quarter of a second of CPU.
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
