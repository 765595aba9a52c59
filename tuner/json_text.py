"""JSON of any text: of half characters too, and of those that act where they are shown."""

import json
import re
from typing import Any

import msgspec

from tuner.text import printable

_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


def json_of(document: Any, *, is_indented: bool = False) -> bytes:
    """The document as JSON, also with dataclasses, and numpy's numbers and arrays.

    Lone surrogates in its text are escaped as text, as in `\\udc80`.
    """
    try:
        encoded = msgspec.json.encode(document, enc_hook=_plain)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_whole(document), enc_hook=_plain)
    return msgspec.json.format(encoded, indent=2) if is_indented else encoded


def visible_json(document: Any, *, is_indented: bool = False) -> bytes:
    """`json_of` for a terminal: what would act instead of being seen is escaped as JSON does it."""
    # JSON itself escapes the control characters of ASCII, but for DEL.
    encoded = json_of(document, is_indented=is_indented).decode()
    return _BEYOND_ASCII.sub(lambda found: _seen(found[0]), encoded).encode()


def _plain(value: Any) -> Any:
    """A number or an array of numpy, which has this method, as Python's."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"no JSON: {value!r}")
    return value.tolist()


def _seen(character: str) -> str:
    return character if printable(character) == character else json.dumps(character)[1:-1]


def _whole(value: Any) -> Any:
    """The value with whole characters in all its text."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value
