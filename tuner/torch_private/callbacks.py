"""Callbacks of futures: what PyTorch runs once a result is complete, mostly on a worker thread."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tuner.torch_private.answers import Future
from tuner.torch_private.exceptions import without_our_frames

# Looked up once, as PyTorch has them: what the tracer itself adds is none of the program's.
add_done_callback: Callable[[Any, Callable[[Any], None]], None] = Future.add_done_callback
"""Runs a function of ours once this future is complete, unseen by the hooks."""

_Recorder = Any
"""What the hooks ask: a `tuner.trace.record.callbacks.Callbacks`, of a higher layer."""


class _Noting:
    """In place of a method of all futures that takes a callback."""

    def __init__(self, recorder: _Recorder, add: Any) -> None:
        self._recorder = recorder
        self._add = add

    def __get__(self, future: Any, kind: Any = None) -> Any:
        # The callback of a complete future runs at once: it is time of the thread that adds it.
        if future is None or future.done():
            return self._add.__get__(future, kind)
        return partial(self._add_noted, future)

    def _add_noted(self, future: Any, *callbacks: Any) -> Any:
        try:
            # PyTorch itself is to refuse what is none.
            if len(callbacks) == 1 and callable(callbacks[0]):
                return self._add(future, self._recorder.noted(future, callbacks[0]))
            return self._add(future, *callbacks)
        except BaseException as error:
            without_our_frames(error)
            raise


def callback_hooks(recorder: _Recorder) -> dict[str, Any]:
    """What stands in for methods of `Future`: PyTorch gets what `recorder` makes of a callback."""
    return {
        name: _Noting(recorder, getattr(Future, name)) for name in ("then", "add_done_callback")
    }


def name_of(function: Any) -> str:
    """What a callback is called in a trace."""
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))
