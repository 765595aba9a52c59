"""What traced calls send in place of a person's functions, and what comes back.

Every process that takes part imports this: a request names the functions of this module, with the
person's own as an argument. Where no trace is running they do nothing but call it.
"""

import copyreg
from collections.abc import Callable
from typing import Any, Protocol

from tuner.torch_private.answers import is_future
from tuner.torch_private.calls import python_request


class ServerEnd(Protocol):
    """Records what this process serves."""

    arrived: list[int]
    """The ids of the calls that were sent here; counted apart from what is recorded of them."""

    def serve(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function that this process was sent; gives or raises what it does."""

    def answer(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a plain Python function; its answer, as an `Answer` if that can be."""

    def done(self, call_id: int) -> None:
        """The future of a served `async_execution` call is complete."""


class ClientEnd(Protocol):
    """Records what this process calls."""

    def answered(self, call_id: int, value: object) -> None:
        """The answer to a call is here; `answers.error_of` tells if it is an exception."""


class Ends:
    """The two ends in this process while it is traced, if it is."""

    server: ServerEnd | None = None
    client: ClientEnd | None = None


class Request:
    """A call of a plain Python function as it travels; unpickled, it is for `ServerEnd.answer`.

    It is as cheap to pickle as what PyTorch sends: a tuple of a function and its arguments.
    """

    __slots__ = ("_contents",)

    def __init__(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._contents = (call_id, func, args, kwargs)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _requested, self._contents


def _requested(*contents: Any) -> Any:
    server = Ends.server
    if server is None:
        return python_request(_unrecorded, contents)
    server.arrived.append(contents[0])
    return python_request(server.answer, contents)


def _unrecorded(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Runs a function that was sent by a trace which has ended meanwhile."""
    del call_id
    return func(*args, **kwargs)


def served(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Stands for a function whose answer must be its own.

    An RRef keeps it, or it is a future of an `async_execution` function.
    """
    server = Ends.server
    if server is None:
        return func(*args, **kwargs)
    server.arrived.append(call_id)
    result = server.serve(call_id, func, args, kwargs)
    if is_future(result):
        result.add_done_callback(lambda _: server.done(call_id))
    return result


class Answer:
    """An answer that is unpickled as the plain value, and tells the client's end of it.

    A callback on the client's future would tell, too, but costs two more turns of the GIL, on a
    thread that has no state yet.
    """

    __slots__ = ("_contents",)

    def __init__(self, call_id: int, value: object) -> None:
        self._contents = (call_id, value)

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[[int, Any], Any], tuple[int, Any]]:
        return _answered, self._contents


def _answered(call_id: int, value: Any) -> Any:
    if (client := Ends.client) is not None:
        client.answered(call_id, value)
    return value


# A request and an answer name these by number: with a name, most of the time that it takes to
# unpickle them would go into finding the function. Numbers above 240 are anybody's.
copyreg.add_extension(__name__, _requested.__name__, 0x72706301)
copyreg.add_extension(__name__, _answered.__name__, 0x72706302)
