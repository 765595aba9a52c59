"""What traced calls carry beside the program's own pickles, and what comes back.

Every traced process imports this: what it adds to a pickle names functions of this module. If no
trace is running, they give what the program sent.
"""

import copyreg
from collections.abc import Callable, Iterator
from typing import Any, Protocol

# Numbers this large are unassigned (PEP 307). To find these functions by name would take most of
# the time to unpickle.
_REQUESTED, _ANSWERED = 0x72706301, 0x72706302
_PROTOCOL = b"\x80"
_EXTENSION = b"\x84" + _REQUESTED.to_bytes(4, "little")
_NUMBER = b"\x8a\x08"
_TRUE, _FALSE = b"\x88", b"\x89"
_END = b"\x87R."
"""A tuple of three, the function called with it, and the end of a pickle."""


class ServerEnd(Protocol):
    """Records what this process serves."""

    def arrived(self, call_id: int, udf: Any, *, answers_plainly: bool) -> Any:
        """A call has arrived; returns what PyTorch runs in place of its PythonUDF."""


class ClientEnd(Protocol):
    """Records what this process calls."""

    def answered(self, call_id: int, value: object) -> None:
        """The answer to a call has arrived; `answers.error_of` tells if it is an exception."""


class Ends:
    """The two ends in this process; None while it is not traced."""

    server: ServerEnd | None = None
    client: ClientEnd | None = None


def marked(pickled: bytes, call_id: int, answers_plainly: bool) -> bytes | None:
    """A pickled PythonUDF, so that its server records the call.

    The pickle is the program's own: its pickler sees what PyTorch gives it. Around its code goes a
    call of `_requested` with the call's id, and with what that code makes.

    Args:
        pickled: What the pickler has made of it.
        call_id: The call.
        answers_plainly: Whether what the function returns is the answer; else it stays on the
            server, or is the future of an `async_execution` function.

    Returns:
        The pickle; None if this is none that can be marked.
    """
    if not (pickled.startswith(_PROTOCOL) and pickled.endswith(_END[-1:])):
        return None
    mark = (
        _EXTENSION,
        _NUMBER,
        call_id.to_bytes(8, "little"),
        _TRUE if answers_plainly else _FALSE,
    )
    return b"".join((pickled[:2], *mark, pickled[2:-1], _END))


def _requested(call_id: int, answers_plainly: bool, udf: Any) -> Any:
    """What PyTorch runs for a pickle with a mark; `udf` is the program's PythonUDF."""
    server = Ends.server
    if server is None:
        return udf  # it was sent during a trace that has ended
    return server.arrived(call_id, udf, answers_plainly=answers_plainly)


class Answer:
    """An answer that is unpickled as the plain value, and then notifies the client's end.

    A callback on the client's future could notify it, too, but it takes the GIL twice more, on a
    thread that has no Python state yet.

    Args:
        call_id: The call.
        value: The answer.
        pickled: Is called once the value is pickled.
    """

    __slots__ = ("_contents", "_pickled")

    def __init__(self, call_id: int, value: object, pickled: Callable[[], None]) -> None:
        self._contents = (call_id, value)
        self._pickled = pickled

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        # The third and the fourth are for objects with a state, and for lists: a pickler asks for
        # their items once it has pickled the second.
        return _answered, self._contents, None, self._no_items()

    def _no_items(self) -> Iterator[object]:
        self._pickled()
        return
        yield


def answered(call_id: int, value: object) -> tuple[Any, ...]:
    """How to pickle a value so that it is unpickled as an `Answer` is."""
    return _answered, (call_id, value)


def _answered(call_id: int, value: Any) -> Any:
    if (client := Ends.client) is not None:
        client.answered(call_id, value)
    return value


copyreg.add_extension(__name__, _requested.__name__, _REQUESTED)
copyreg.add_extension(__name__, _answered.__name__, _ANSWERED)
