"""What traced calls carry beside the program's own pickles, and what comes back.

What is added to a pickle names `received`, or what `server` has for requests; every traced process
imports both. If no trace is running, they give what the program sent.
"""

import copyreg
from typing import Any, Protocol

from tuner.torch_private.answers import pickle_as_tuple

# Numbers for pickles of what is added to them. To find it by name would take most of the time to
# unpickle. Numbers this large are unassigned (PEP 307).
REQUESTED, ANSWERED, MARKED = 0x72706301, 0x72706302, 0x72706303
_PROTOCOL = b"\x80"
_EXTENSION = b"\x84" + MARKED.to_bytes(4, "little")
_NUMBER = b"\x8a\x08"
_TRUE, _FALSE = b"\x88", b"\x89"
_END = b"\x87R."
"""A tuple of three, the function called with it, and the end of a pickle."""


class ServerEnd(Protocol):
    """Records what this process serves."""

    @property
    def arrivals(self) -> list[int]:
        """The id of each call that arrives is added here, apart from its span."""


class ClientEnd(Protocol):
    """Records what this process calls."""

    def answered(self, call_id: int, value: object) -> None:
        """The answer to a call has arrived; `answers.error_of` says if it is an exception."""


class Ends:
    """The two ends in this process; None while it is not traced."""

    server: ServerEnd | None = None
    client: ClientEnd | None = None


class OnTheWay(tuple[Any, ...]):
    """What is pickled in place of a call, or of an answer: how `__reduce_ex__` would say it.

    It is a tuple so that C alone pickles it, as long as PyTorch's pickler has it registered.
    """

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self[:]


pickle_as_tuple(OnTheWay)


def marked(pickled: bytes, call_id: int, answers_plainly: bool) -> bytes | None:
    """A pickled PythonUDF, so that its server records the call.

    For what is not sent as a `server.Served`. The pickle is the program's own: its pickler sees
    what PyTorch gives it. Around its code goes a call of `server.marked_udf` with what that code
    makes.

    Args:
        pickled: What the pickler has made of it.
        call_id: The call.
        answers_plainly: See `server.Served`.

    Returns:
        The pickle; None if this is none that can be marked.
    """
    if not (pickled.startswith(_PROTOCOL) and pickled.endswith(_END[-1:])):
        return None
    flag = _TRUE if answers_plainly else _FALSE
    mark = _EXTENSION + _NUMBER + call_id.to_bytes(8, "little") + flag
    return b"".join((pickled[:2], mark, pickled[2:-1], _END))


def received(call_id: int, value: Any) -> Any:
    """An answer is unpickled as the plain value, and notifies the client's end.

    A callback on the client's future could notify it, too, but it takes the GIL twice more, on a
    thread that has no Python state yet.
    """
    if (client := Ends.client) is not None:
        client.answered(call_id, value)
    return value


copyreg.add_extension(__name__, received.__name__, ANSWERED)
