"""Reports, in each process of a program, how that ends. Standard library only.

Nothing that a program can see is replaced: at a process's end Python still knows what it raised.
"""

import atexit
import multiprocessing.process
import multiprocessing.util
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import CodeType

from tuner.torch_private.exceptions import MOST_TEXT, error_text, sound

_CHILD: CodeType = multiprocessing.process.BaseProcess._bootstrap.__code__  # type: ignore[attr-defined]
_BY_SIGNAL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Before what the program, or a library, has to do at its end, which may take a while.
_FIRST = 1_000_000


class OwnEnd:
    """Reports `exit`, once for each process: with the exception that ends it, if one does."""

    def __init__(self, send: Callable[..., None]) -> None:
        self._send = send
        self.counted: Callable[[], Mapping[str, object]] = dict
        """What is reported with it."""
        self._reported_in = -1
        # What parents were handling, or had shown, as they forked; no references, which would keep
        # objects of the program.
        self._inherited: set[tuple[int, int]] = set()

    def install(self) -> None:
        """Report the end of this process, and of those that are forked from it."""
        with suppress(AttributeError, RuntimeError):
            # Before the threads of the program are waited for, which may never end.
            threading._register_atexit(self._report)  # type: ignore[attr-defined]
        atexit.register(self._report)
        os.register_at_fork(after_in_child=self._note_inherited)
        multiprocessing.util.register_after_fork(self, OwnEnd._report_from_multiprocessing)
        self._report_from_multiprocessing()

    def _report_from_multiprocessing(self) -> None:
        """A child of `multiprocessing` shows no exception to Python itself."""
        multiprocessing.util.Finalize(None, self._report, exitpriority=_FIRST)

    def _note_inherited(self) -> None:
        self._inherited |= {_identity(error) for error in (sys.exc_info()[1], _last_value())}

    def _report(self) -> None:
        if self._reported_in == os.getpid():
            return
        self._reported_in = os.getpid()
        text = shown = ""
        if (error := self._ending_error()) is not None:
            text = error_text(error)
            shown = sound("".join(traceback.format_exception(error)))[-MOST_TEXT:]
        facts: Mapping[str, object] = {}
        with suppress(Exception):  # the program comes first
            facts = self.counted()
        self._send("exit", error=text, traceback=shown, **facts)

    def _ending_error(self) -> BaseException | None:
        """What ends this process now, unless somebody has asked it to end."""
        # `multiprocessing` cleans up while the exception passes through; Python, after it has
        # shown it.
        passing, shown = sys.exc_info()[1], _last_value()
        error = None if self._is_inherited(passing) else passing
        if error is None and _has_ended_all(shown) and not self._is_inherited(shown):
            error = shown
        if isinstance(error, SystemExit) and (error.code in (None, 0) or _is_by_signal(error)):
            return None
        if isinstance(error, SystemExit) and not self._is_inherited(error.__context__):
            # torch.multiprocessing passes on what was raised, and exits.
            error = error.__context__ or error
        if isinstance(error, KeyboardInterrupt) or (error is not None and _is_by_signal(error)):
            return None
        return error

    def _is_inherited(self, error: BaseException | None) -> bool:
        return error is not None and _identity(error) in self._inherited


def _identity(error: BaseException | None) -> tuple[int, int]:
    """Also of where it was raised: it may be raised again."""
    return id(error), id(None if error is None else error.__traceback__)


def _last_value() -> BaseException | None:
    """The exception that Python has shown last: it ends the process, unless a console has it."""
    return getattr(sys, "last_value", None)


def _has_ended_all(error: BaseException | None) -> bool:
    """Whether nothing in the program has caught it, as a console does."""
    found = None if error is None else error.__traceback__
    if found is None:
        return False
    # What called what it went through: nothing, or what runs a program that was started warm.
    frame, program = found.tb_frame.f_back, vars(sys.modules["__main__"])
    while frame is not None:
        # A child of `multiprocessing` shows what ends it in a way of its own.
        if frame.f_globals is program or frame.f_code is _CHILD:
            return False
        frame = frame.f_back
    return True


def _is_by_signal(error: BaseException) -> bool:
    """Whether the program's own handler of a signal has raised it."""
    handlers = [getattr(signal.getsignal(each), "__code__", None) for each in _BY_SIGNAL]
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(error.__traceback__))
