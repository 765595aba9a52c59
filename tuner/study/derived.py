"""What follows from a log that changes: each thing is made once for a version of it."""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

_T = TypeVar("_T")
_P = ParamSpec("_P")


class Derived:
    """The one cache of a log. It is for the thread that changes the log alone."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Hashable, Any]] = {}

    def once(self, key: Hashable, version: Hashable, make: Callable[[], _T]) -> _T:
        """What `make` makes of the log, made anew only for another version than the last one."""
        known = self._made.get(key)
        if known is None or known[0] != version:
            known = self._made[key] = version, make()
        return cast(_T, known[1])


class HasDerived(Protocol):
    """What things are derived from."""

    derived: Derived


_L = TypeVar("_L", bound=HasDerived)


def once_for(
    version: Callable[[_L], Hashable],
) -> Callable[[Callable[Concatenate[_L, _P], _T]], Callable[Concatenate[_L, _P], _T]]:
    """Makes functions of a log, and methods, that are called once for each version."""

    def once(make: Callable[Concatenate[_L, _P], _T]) -> Callable[Concatenate[_L, _P], _T]:
        @wraps(make)
        def found(log: _L, /, *given: _P.args, **named: _P.kwargs) -> _T:
            key = make, given, *named.items()
            return log.derived.once(key, version(log), lambda: make(log, *given, **named))

        return found

    return once
