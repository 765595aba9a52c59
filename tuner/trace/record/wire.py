"""What traced calls carry beside the program's own pickles, and what comes back.

What is added to a pickle names `received`, or what `server` has for requests; every traced process
imports both. If no trace is running, they give what the program sent.
"""

import copyreg
from pickle import EXT4, LONG1, NEWFALSE, NEWTRUE, PROTO, REDUCE, STOP, TUPLE3
from typing import Any

from tuner.torch_private.answers import pickle_as_tuple

# Numbers for pickles of what is added to them. To find it by name would take most of the time to
# unpickle. Numbers this large are unassigned (PEP 307).
REQUESTED, ANSWERED, MARKED = 0x72706301, 0x72706302, 0x72706303
_MARK = EXT4 + MARKED.to_bytes(4, "little") + LONG1 + b"\x08"
_END = TUPLE3 + REDUCE + STOP


class Ends:
    """The `Server` and the `Client` of this process; None while it is not traced."""

    server: Any = None
    client: Any = None


class OnTheWay(tuple[Any, ...]):
    """What is pickled in place of a call, or of an answer: how `__reduce_ex__` would say it.

    It is a tuple so that C alone pickles it, as long as PyTorch's pickler has it registered.
    """

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self[:]


pickle_as_tuple(OnTheWay)


def marked(pickled: bytes, call_id: int, answers_plainly: bool) -> bytes | None:
    """A pickled PythonUDF, so that its server records the call; None if it cannot be marked.

    For what is not sent as a `server.Served`. The pickle is the program's own: its pickler sees
    what PyTorch gives it. Around its code goes a call of `server.marked_udf` with what that code
    makes.
    """
    if not (pickled.startswith(PROTO) and pickled.endswith(STOP)):
        return None
    mark = _MARK + call_id.to_bytes(8, "little") + (NEWTRUE if answers_plainly else NEWFALSE)
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
