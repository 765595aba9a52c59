"""Which failures are alike: the same kind, and the same words but for numbers and evidence."""

import re
from collections.abc import Hashable

_EVIDENCE = re.compile(r"; see \S+$")
_NUMBER = re.compile(r"\d[\d.,]*")


def likeness(kind: str, message: str) -> Hashable:
    """What failures have in common that are alike, by their kind and their message."""
    return kind, _NUMBER.sub("#", _EVIDENCE.sub("", message))


def without_evidence(message: str) -> str:
    """A failure's message without the folder of its evidence."""
    return _EVIDENCE.sub("", message)
