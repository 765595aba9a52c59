"""Tracebacks as a program would see them without us. Standard library only: it runs in programs."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")
_OUR_PACKAGE = __name__.partition(".")[0] + "."


def unseen_in_tracebacks(func: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of ours that stands in for one that the program calls: no error shows it."""

    @functools.wraps(func)
    def unseen(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return func(*args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise

    return unseen


def without_our_frames(error: BaseException) -> None:
    """Leave out of an error's traceback the frames at its beginning that are this package's.

    A function of ours that the program, or PyTorch, has called catches what it lets pass, calls
    this, and raises again with a bare `raise`: for that, Python adds no frame to the traceback.
    """
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_globals.get("__name__")):
        trace = trace.tb_next
    error.__traceback__ = trace


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.startswith(_OUR_PACKAGE)
