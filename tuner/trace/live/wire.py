"""What traced calls send in place of a person's functions, and what comes back.

Every process that takes part imports this: a request names the functions of this module, with the
person's own as an argument. Where no trace is running they do nothing but call it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from tuner.torch_private import (
    answer_of,
    can_be_wrapped,
    error_of,
    is_future,
    python_request,
)


class ServerEnd(Protocol):
    """Records what this process serves."""

    def serve(
        self, call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a function that this process was sent; gives or raises what it does."""

    def done(self, call_id: int) -> None:
        """The future of a served `async_execution` call is complete."""


class ClientEnd(Protocol):
    """Records what this process calls."""

    def answered(self, call_id: int, error: str) -> None:
        """The answer to a call is here; `error` is empty if it is a plain result."""


class Ends:
    """The two ends in this process while it is traced, if it is."""

    server: ServerEnd | None = None
    client: ClientEnd | None = None


class Request:
    """A call of a plain Python function as it travels; its server unpickles a call of `answer`.

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
    return python_request(_answer, contents)


def _answer(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Runs a plain Python function.

    The answer tells the client of the call's end as it is unpickled. A callback on the client's
    future would do, too, but costs two more turns of the GIL on a thread that has no state yet.
    """
    server = Ends.server
    if server is None:  # the trace has ended meanwhile
        return func(*args, **kwargs)
    try:
        value = server.serve(call_id, func, args, kwargs)
    except Exception as error:
        value = answer_of(error)
    return _Answer(call_id, value) if can_be_wrapped(value) else value


def served(
    call_id: int, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Stands for a function whose answer must be its own.

    An RRef keeps it, or it is a future of an `async_execution` function.
    """
    server = Ends.server
    if server is None:
        return func(*args, **kwargs)
    result = server.serve(call_id, func, args, kwargs)
    if is_future(result):
        result.add_done_callback(lambda _: server.done(call_id))
    return result


class _Answer:
    """An answer that is unpickled as the plain value, and tells the client's end of it."""

    __slots__ = ("call_id", "value")

    def __init__(self, call_id: int, value: object) -> None:
        self.call_id = call_id
        self.value = value

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[[int, Any], Any], tuple[int, Any]]:
        return _answered, (self.call_id, self.value)


def _answered(call_id: int, value: Any) -> Any:
    if (client := Ends.client) is not None:
        client.answered(call_id, error_of(value))
    return value
