"""Finds the events in the text of a trace, and what else is read of it, if all of it is no JSON.

An odd quote, or a single backslash, makes an event unreadable, and turns what is inside and outside
of strings around. So each event is parsed by itself, and after one that cannot be, the next begins
where one can be.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

BETWEEN = b" \t\r\n,"  # what may stand between two events
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_PLACES_TRIED = 10
_STRING = rb'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?+'  # no line break, even where it lacks its end
_STRING_OR_BRACE = re.compile(rb"%b|[{}]" % _STRING)
_BRACE = re.compile(rb"[{}]")
_GAP = re.compile(r"[ \t\r\n,]*")
_NEXT = re.compile(r'[,}]\s*(\{)\s*"')  # where an event may begin after one that is unreadable
_GOES_ON = re.compile(r"\]\s*,\s*\{")  # a bracket that is not the end of the events
_END = re.compile(r'\}\s*(\])(?=\s*(?:,\s*"|\}?\s*\Z))')
_AFTER_VALUE = re.compile(r"\s*(?:[,\]]|\Z)")
_NEAR = (2**12, 2**16)  # most events are shorter: to find an error in a short text takes no time
_MOST_CUT = 10  # so near to the end of a text a value may seem wrong that was only cut


def head_of(content: bytes) -> bytes:
    """How a text begins, before its first event, be it JSON or not; empty if that is not seen."""
    if content.lstrip().startswith(b"["):
        return content[: content.index(b"[") + 1]
    wrong = b""
    for found in islice(_EVENTS.finditer(content), _PLACES_TRIED):
        head = content[: found.end()]
        try:
            # Neither in a string nor in an object of the first one.
            msgspec.json.decode(head + closing_of(head), type=msgspec.Raw)
        except (ValueError, RecursionError) as error:
            if "truncated" not in str(error):
                wrong = wrong or head
            continue
        return head
    return wrong


def closing_of(head: bytes) -> bytes:
    """What closes a text with this head after any of its events."""
    return b"]" if head.lstrip() == b"[" else b"]}"


def event_places(
    content: bytes, start: int = 0, *, is_last: bool = False
) -> tuple[list[tuple[int, int]], int | None]:
    """Where the events of an array begin and end, from `start` in it; its end, None if not seen.

    What lies between two of them but for white space and commas cannot be read. `is_last` says that
    no more text follows: then the end may come after an event that is unreadable.
    """
    # A character per byte.
    text, place = content.decode("latin-1"), start
    places: list[tuple[int, int]] = []
    while True:
        place = _skipped(text, place)
        if place == len(text) or (text[place] == "]" and not _GOES_ON.match(text, place)):
            return places, place if place < len(text) else None
        end = _end_of_value(text, place)
        if end and text[place] == "{":
            places.append((place, end))
        if end and (text[place] == "{" or _AFTER_VALUE.match(text, end)):
            place = end
            continue
        following = next(_readable_after(text, place), None)
        if following is None:
            found = _END.search(text, place) if is_last else None
            until = found.start(1) if found else len(text) if is_last else place
            return [*places, *_in_braces(content, place, until)], found and until
        places += _in_braces(content, place, following)
        place = following


def members(text: bytes, names: Sequence[str]) -> dict[str, msgspec.Raw]:
    """Those members of an object that can be read in its text, although all of it cannot."""
    every, found = text.decode("latin-1"), {}
    for name in names:
        for key in re.finditer(rf'"{re.escape(name)}"\s*:\s*', every):
            if end := _end_of_value(every, key.end()):
                found[name] = msgspec.Raw(text[key.end() : end])
    return found


def _skipped(text: str, place: int) -> int:
    gap = _GAP.match(text, place)
    return gap.end() if gap else place


def _end_of_value(text: str, place: int) -> int:
    """Where the JSON value ends that begins there; 0 if it cannot be read, or has no end."""
    for most in (*_NEAR, len(text)):
        near = text[place : place + most]
        try:
            end = _DECODER.raw_decode(near)[1]
        except (ValueError, RecursionError) as error:
            is_cut = getattr(error, "pos", 0) >= len(near) - _MOST_CUT
            if not (is_cut or "Unterminated" in str(error)):
                return 0
            continue
        # A number may go on behind a text that was cut.
        if end < len(near) or place + end == len(text):
            return place + end
    return 0


def _same(value: str) -> str:
    return value


_DECODER = json.JSONDecoder(parse_int=_same, parse_float=_same, parse_constant=_same)


def _readable_after(text: str, place: int) -> Iterator[int]:
    """Where events begin that can be read, behind an unreadable one that begins at `place`."""
    for found in _NEXT.finditer(text, place + 1):
        begin = found.start(1)
        end = _end_of_value(text, begin)
        # What an unreadable event holds may be objects, too, but no event.
        if end and '"ph"' in text[begin:end]:
            yield begin


def _in_braces(content: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Objects that no parser reads, by their braces: each is one event that is left out."""
    braces, began = 0, 0
    for found in _braces(content, start, end):
        braces += 1 if found[0] == b"{" else -1
        if braces == 1 and found[0] == b"{":
            began = found.start()
        if not braces:
            yield began, found.end()
        braces = max(braces, 0)


def _braces(content: bytes, start: int, end: int) -> Iterator[re.Match[bytes]]:
    """Those outside of strings: a quote that no other one follows begins none."""
    for found in _STRING_OR_BRACE.finditer(content, start, end):
        if found[0] in b"{}":
            yield found
        elif found.end() == end and not found[0][1:].endswith(b'"'):
            yield from _BRACE.finditer(content, found.start(), end)
