"""What traced calls send in place of the program's functions, and what comes back.

Every traced process imports this: a request names a function of this module and has the program's
own function as an argument. If no trace is running, it is only called.
"""

import copyreg
from collections.abc import Callable
from typing import Any, Protocol

from tuner.torch_private.answers import is_future
from tuner.torch_private.calls import python_request


class ServerEnd(Protocol):
    """Records what this process serves."""

    arrived: Callable[[int], None]
    """Told the id of each call that arrives here, apart from its span."""

    def serve(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function that was sent here; returns, or raises, what the function does."""

    def answer(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a plain Python function; returns its answer, as an `Answer` if possible."""

    def done(self, call_id: int) -> None:
        """The future of a served `async_execution` call is complete."""


class ClientEnd(Protocol):
    """Records what this process calls."""

    def answered(self, call_id: int, value: object) -> None:
        """The answer to a call has arrived; `answers.error_of` tells if it is an exception."""


class Ends:
    """The two ends in this process; None while it is not traced."""

    server: ServerEnd | None = None
    client: ClientEnd | None = None


class Request:
    """A call of a plain Python function on its way; unpickled, it runs `ServerEnd.answer`.

    It is as cheap to pickle as PyTorch's own tuple of a function and its arguments.
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
    server.arrived(contents[0])
    return python_request(server.answer, contents)


def _unrecorded(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a function that was sent during a trace that has ended."""
    del call_id
    return func(*args, **kwargs)


def served(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a function whose answer must not be wrapped in an `Answer`.

    An RRef keeps the answer, or it is the future of an `async_execution` function.
    """
    server = Ends.server
    if server is None:
        return func(*args, **kwargs)
    server.arrived(call_id)
    result = server.serve(call_id, func, args, kwargs)
    if is_future(result):
        result.add_done_callback(lambda _: server.done(call_id))
    return result


class Answer:
    """An answer that is unpickled as the plain value, and then notifies the client's end.

    A callback on the client's future could notify it, too, but it takes the GIL twice more, on a
    thread that has no Python state yet.
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


# Pickles name these two functions by number: finding them by name would take most of the time to
# unpickle. Numbers this large are unassigned (PEP 307).
copyreg.add_extension(__name__, _requested.__name__, 0x72706301)
copyreg.add_extension(__name__, _answered.__name__, 0x72706302)
