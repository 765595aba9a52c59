"""What traced calls carry beside the program's own pickles, and what comes back.

What is added to a pickle names `received`, or what `server` has for requests; every traced process
imports both. If no trace is running, they give what the program sent.
"""

import copyreg
import pickle
from time import time_ns
from typing import Any

from tuner.torch_private.answers import Tensor, pickle_as_tuple, received_tensor

# Numbers for pickles of what is added to them. To find it by name would take most of the time to
# unpickle. Numbers this large are unassigned (PEP 307).
REQUESTED, ANSWERED, MARKED, TENSOR_ANSWERED, LONG_REQUESTED, LONG_ANSWERED = range(
    0x72706301, 0x72706307
)
LONG_BYTES = 4096  # of a longer pickle it is noted when it is unpickled


def _call_of(number: int, opened: bytes = b"") -> bytes:
    """The beginning of a pickle's code for a call; its first argument, the id, comes next."""
    return pickle.EXT4 + number.to_bytes(4, "little") + opened + pickle.LONG1 + b"\x08"


_PROTOCOL = pickle.PROTO + b"\x04"
_END = pickle.REDUCE + pickle.STOP
_MARK, _MARK_END = _call_of(MARKED), pickle.TUPLE3 + _END
_REQUEST, _REQUEST_END = _call_of(REQUESTED, pickle.MARK), pickle.TUPLE + pickle.TUPLE1 + _END
# The time at which it is unpickled.
_NOW = pickle.GLOBAL + b"time\ntime_ns\n" + pickle.EMPTY_TUPLE + pickle.REDUCE
_LONG_REQUEST = _call_of(LONG_REQUESTED, pickle.MARK)
_ANSWER, _ANSWER_END = _PROTOCOL + _call_of(ANSWERED), pickle.TUPLE2 + _END
_TENSOR, _TENSOR_END = _PROTOCOL + _call_of(TENSOR_ANSWERED), pickle.TUPLE1 + _END


class Ends:
    """The `Server` and the `Client` of this process; None while it is not traced."""

    server: Any = None
    client: Any = None


class OnTheWay(tuple[Any, ...]):
    """What is pickled in place of an answer: how `__reduce_ex__` would say it.

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
    if not (pickled.startswith(pickle.PROTO) and pickled.endswith(pickle.STOP)):
        return None
    plainly = pickle.NEWTRUE if answers_plainly else pickle.NEWFALSE
    if len(pickled) > LONG_BYTES:
        plainly += _NOW + pickle.TUPLE2
    return b"".join((pickled[:2], _MARK, _bytes(call_id), plainly, pickled[2:-1], _MARK_END))


def request(call_id: int, function: bytes, values: bytes) -> bytes:
    """What its server unpickles as a `server.Served`, whose function returns the answer.

    `function` is how a pickle names it; `values` is the pickle of its arguments and its keywords.
    """
    began, now = (_LONG_REQUEST, _NOW) if len(values) > LONG_BYTES else (_REQUEST, b"")
    return b"".join(
        (
            values[:2], began, _bytes(call_id), pickle.NEWTRUE, function, now, values[2:-1],
            _REQUEST_END,
        )
    )  # fmt: skip


def quickly_pickled(answer: object) -> tuple[bytes, list[Any]] | None:
    """A marked answer of one plain value or tensor, as PyTorch sends it; None for other objects."""
    if type(answer) is not OnTheWay or len(answer) != 2:
        return None
    call_id, value = answer[1]
    if type(value) is Tensor:
        return b"".join((_TENSOR, _bytes(call_id), _TENSOR_END)), [value]
    return b"".join((_ANSWER, _bytes(call_id), pickle.dumps(value, 4)[2:-1], _ANSWER_END)), []


def _bytes(call_id: int) -> bytes:
    return call_id.to_bytes(8, "little")


def received(call_id: int, value: Any) -> Any:
    """An answer is unpickled as the plain value, and notifies the client's end.

    A callback on the client's future could notify it, too, but it takes the GIL twice more, on a
    thread that has no Python state yet.
    """
    if (client := Ends.client) is not None:
        client.answered(call_id, value)
    return value


def long_received(began_ns: int, call_id: int, value: Any) -> Any:
    """The same of an answer that may take long to unpickle, which began then."""
    if (client := Ends.client) is not None:
        client.unpickled(call_id, began_ns)
    return received(call_id, value)


NOW = OnTheWay((time_ns, ()))
"""Is unpickled as the time at which that happens."""


def _tensor_received(call_id: int) -> Any:
    return received(call_id, received_tensor(0))


copyreg.add_extension(__name__, received.__name__, ANSWERED)
copyreg.add_extension(__name__, long_received.__name__, LONG_ANSWERED)
copyreg.add_extension(__name__, _tensor_received.__name__, TENSOR_ANSWERED)
