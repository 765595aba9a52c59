"""What is there: for a test that looks into what may be None."""

from typing import TypeVar

_T = TypeVar("_T")


def known(found: _T | None) -> _T:
    """What was found, which is not None."""
    assert found is not None
    return found
