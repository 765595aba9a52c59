"""JSON of any text: of half characters too, and of those that act where they are shown."""

import re
from typing import Any

import orjson

from tuner.text import printable

_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


def json_of(document: Any, *, option: int = 0) -> bytes:
    """The document as JSON; lone surrogates in its text are escaped as text, as in `\\udc80`.

    `option` is that of `orjson.dumps`.
    """
    try:
        return orjson.dumps(document, option=option)
    except TypeError:
        return orjson.dumps(_whole(document), option=option)


def visible_json(document: Any, *, option: int = 0) -> bytes:
    """`json_of` for a terminal: what would act instead of being seen is escaped as JSON does it."""
    # JSON itself escapes the control characters of ASCII, but for DEL.
    return _BEYOND_ASCII.sub(_seen, json_of(document, option=option).decode()).encode()


def _seen(found: re.Match[str]) -> str:
    character = found[0]
    if printable(character) == character:
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _whole(value: Any) -> Any:
    """The value with whole characters in all its text."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_whole(key): _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value
