"""Which functions a process of a program calls, how often, and how many of its calls fail.

A call that is answered is counted where PyTorch unpickles its answer, on that thread and with the
GIL that it has there: a callback on its future would take the GIL once more. What was sent, is not
under way and was not answered has failed. Standard library only, as `programs`.
"""

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable
from threading import get_ident
from typing import Any

from tuner.torch_private.exceptions import unseen_in_tracebacks, without_our_frames
from tuner.torch_private.private_names import Sender

_NAMED = re.compile(
    rb"PythonUDF\x94\x93\x94\x8c(?s:.)([^\x94]*)\x94\x8c(?s:.)([^\x94]*)\x94\x93"
    rb"|\x88c([^\n]+)\n([^\n]+)\n"
)
"""What a pickle runs: as PyTorch makes it, and as a traced run does (`trace.record.wire`)."""
_BEGINNING = 1000
"""Bytes of a pickle, in which that is."""
_HELPERS = {"builtins": "a method", "functools": "a partial function"}
"""What stands for functions that a pickle finds by another one, by the module of that."""
_MOST_NAMES = 100
OTHERS = "others"
"""The name of functions beyond the first ones."""


def function_in(sent: str | bytes) -> str:
    """The name of the function that a call sends; empty if it is not found."""
    if isinstance(sent, str):
        return sent
    found = _NAMED.search(sent, 0, _BEGINNING)
    if found is None:
        return ""
    module, name = (found[1] or found[3], found[2] or found[4])
    return _HELPERS.get(module.decode(errors="replace")) or name.decode(errors="replace")


class CallOutcomes:
    """Counts for one process. No two threads write one number, so none is lost without a GIL."""

    def __init__(self) -> None:
        self._functions: dict[tuple[int, str], int] = {}
        """How many calls of the program each thread has made, by its identity and the function."""
        self._sent: dict[int, int] = {}
        """Those of Python functions whose answer PyTorch unpickles, by thread; RPC's own, too."""
        self._answered: dict[int, int] = {}
        self._not_fetched: dict[int, int] = {}
        self._names: set[str] = set()
        self.sender: Any = None
        """The code that calls what sends: below it, too, an answer may be unpickled."""
        self._before = self._counts()
        """What was counted before this agent was started."""

    def install(self, rpc: Any) -> None:
        """Hook what PyTorch unpickles with, and what fetches the value of an RRef."""
        internal = rpc.internal
        unpickled, no_answers = internal.deserialize, (internal.RemoteException, AttributeError)
        request, answered = internal.PythonUDF, self._answered

        @functools.wraps(unpickled)
        def deserialize(*args: Any) -> Any:
            value = unpickled(*args)
            # `to_here` unpickles below a frame of Python; an answer has none, but for the sender's.
            below = sys._getframe().f_back
            is_answer = below is None or below.f_code is self.sender
            kind = type(value)
            # A traced run has a tuple like it in place of the request.
            is_request = kind is request or (isinstance(value, tuple) and hasattr(value, "func"))
            if is_answer and not is_request and kind not in no_answers:
                _add(answered, get_ident())
            return value

        internal.deserialize = deserialize
        to_here = rpc.PyRRef.to_here

        @unseen_in_tracebacks
        @functools.wraps(to_here)
        def fetch(rref: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return to_here(rref, *args, **kwargs)
            except BaseException as error:
                _add(self._not_fetched, get_ident())
                without_our_frames(error)
                raise

        rpc.PyRRef.to_here = fetch

    def begin(self) -> None:
        """An agent is about to start."""
        self._before = self._counts()

    def issued(self, how: Sender, sent: str | bytes, *, is_own: bool) -> None:
        """Count a call that is about to be sent; `is_own`: RPC itself makes it."""
        thread = get_ident()
        if how.body == "python" and not how.returns_rref:
            _add(self._sent, thread)
        if not is_own:
            name = function_in(sent)
            if name not in self._names:
                name = name if len(self._names) < _MOST_NAMES else OTHERS
                self._names.add(name)
            _add(self._functions, (thread, name))

    def facts(self, under_way: Callable[[], int]) -> dict[str, object]:
        """The calls of this agent by function, and how many of all have failed at least, if so
        many are `under_way`: of Python functions, and of what fetches the value of an RRef."""
        # In this order: what ends meanwhile is none that has failed.
        functions, sent, lost, _ = self._counts()
        open_calls = under_way()
        answered = _sum(self._answered)
        before = self._before
        silent = (sent - before[1]) - (answered - before[3]) - open_calls
        names = [[name, made] for name, made in (functions - before[0]).items()]
        return {"functions": names, "failed": max(0, silent) + lost - before[2]}

    def _counts(self) -> tuple[Counter[str], int, int, int]:
        functions = Counter[str]()
        for (_, name), made in self._functions.copy().items():
            functions[name] += made
        return functions, _sum(self._sent), _sum(self._not_fetched), _sum(self._answered)


def _add(counts: dict[Any, int], key: Any) -> None:
    try:
        counts[key] += 1
    except KeyError:
        counts[key] = 1


def _sum(counts: dict[int, int]) -> int:
    return sum(counts.copy().values())
