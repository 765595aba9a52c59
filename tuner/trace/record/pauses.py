"""Why threads that issue calls are off the CPU while they wait for none: a sample now and then.

The kernel says what a thread waits for, and Python's stack where the program is meanwhile.
"""

import dis
import itertools
import os
import threading
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import NamedTuple

from tuner.daemon_threads import frames_of_others
from tuner.torch_private.sites import is_own, site_of
from tuner.trace.record.threads import agent_threads, kernel_says, threads

_WAITS = {
    "sleep": ("nanosleep",),
    "lock": ("futex",),
    "io": ("poll", "select", "read", "write", "recv", "wait_woken", "data_wait", "accept",
           "folio_wait", "io_schedule"),
    "process": ("do_wait",),
}  # fmt: skip
"""By what a thread waits for: parts of the names of the kernel's functions in which it does."""
_MOST_THREADS, _MOST_FRAMES, _MOST_KNOWN = 8, 50, 1000
_LARGEST = 20_000  # bytes of a code whose loops are looked for: that takes tens of milliseconds
_EXTENDED = "EXTENDED_ARG"
_RETURNS = ("RETURN_VALUE", "RETURN_CONST")
_LAST = (*_RETURNS, "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_ABSOLUTE")
"""Instructions after which the next one does not come."""
_JUMPS = {*dis.hasjrel, *dis.hasjabs}


class Pauses:
    """Looks at the main thread of this process, and at others that issue calls and serve none."""

    def __init__(self, keep: Callable[[int, int, str, str, bool], object]) -> None:
        """`keep` gets the fields of a `Pause`, when one is seen."""
        self._keep = keep

    def look(self, now_ns: int) -> None:
        """Keep what each of them waits for now."""
        serving = {*agent_threads.values()}
        own = {each.id: each.ident for each in [*threads.values()] if each not in serving}
        own = {os.getpid(): threading.main_thread().ident or 0, **own}
        frames = frames_of_others()
        for thread, ident in [*own.items()][:_MOST_THREADS]:
            why = _why(thread)
            frame = frames.get(ident) if why else None
            # What PyTorch waits for is a call, or the other ranks.
            if frame is not None and not (why == "lock" and is_own(frame.f_code)):
                is_open = why == "sleep" and _is_in_open_loop(frame)
                self._keep(now_ns, thread, why, site_of(frame), is_open)


def _why(thread: int) -> str:
    """What a thread waits for; empty if it does not, or that is not known."""
    name = kernel_says(thread, "wchan").decode()
    for why, parts in _WAITS.items():
        if any(part in name for part in parts):
            return why
    return ""


def _is_in_open_loop(frame: FrameType | None) -> bool:
    """Whether a loop that the program is in goes on until something happens, as one does that
    polls; other loops have a known number of turns. The innermost file that has loops tells."""
    left, file = _MOST_FRAMES, ""
    while frame is not None and left:
        code = frame.f_code
        if not is_own(code) and file in ("", code.co_filename):
            around = [loop for loop in _loops(code) if frame.f_lasti in loop.places]
            if any(loop.is_open for loop in around):
                return True
            file = file or (code.co_filename if around else "")
        frame, left = frame.f_back, left - 1
    return False


class _Loop(NamedTuple):
    places: frozenset[int]  # its instructions and their caches, of which a frame may name one
    is_open: bool  # whether it is no `for`, or may end before all its turns


_Next = dict[int, list[int]]
"""By the place of an instruction: those that may come next."""
_known: dict[int, tuple[CodeType, list[_Loop]]] = {}
"""By the identity of a code object, which is kept, so that no other gets it: to hash one takes as
long as it is."""


def _loops(code: CodeType) -> list[_Loop]:
    """The loops of a code, which are remembered."""
    if (known := _known.get(id(code))) is not None:
        return known[1]
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    found = _find_loops(code)
    _known[id(code)] = code, found
    return found


def _find_loops(code: CodeType) -> list[_Loop]:
    """The loops of a code: what leads back to a place that all ways there have gone through.

    Not all that jumps back does: CPython moves what handles exceptions to the end of the code. A
    very large code would hold the GIL for long: it may be a loop that polls.
    """
    if len(code.co_code) > _LARGEST:
        return [_Loop(frozenset(range(0, len(code.co_code), 2)), True)]
    found = [*dis.get_instructions(code)]
    names = {instruction.offset: instruction.opname for instruction in found}
    steps: _Next = {instruction.offset: [] for instruction in found}
    for instruction, after in zip(found, [*found[1:], None], strict=True):
        if after is not None and not instruction.opname.startswith(_LAST):
            steps[instruction.offset].append(after.offset)
        if instruction.opcode in _JUMPS:
            steps[instruction.offset].append(instruction.argval)
    ways = {place: [*then] for place, then in steps.items()}
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        for place in range(entry.start, entry.end, 2):
            if place in ways:
                ways[place].append(entry.target)
                if names[place] == "RAISE_VARARGS":
                    steps[place].append(entry.target)
    before = _reversed(ways)
    returns = _reached(_reversed(steps), [p for p in names if names[p] in _RETURNS])
    loops = dict[int, set[int]]()
    for place, then in steps.items():
        for begin in then:
            is_back = begin <= place and names[place] != "JUMP_BACKWARD_NO_INTERRUPT"
            if is_back and place not in _reached(ways, [0], without=begin):
                loops.setdefault(begin, {begin}).update(_reached(before, [place], without=begin))
    owner: dict[int, int] = {}
    for place in range(0, len(code.co_code), 2):
        owner[place] = place if place in names else owner[place - 2]
    made = []
    for begin, places in loops.items():
        head = next(p for p in itertools.count(begin, 2) if names.get(p) not in (None, _EXTENDED))
        ends = {then for p in places - {head} for then in steps[p]} - places
        is_open = names[head] != "FOR_ITER" or bool(ends & returns)
        made.append(_Loop(frozenset(p for p, of in owner.items() if of in places), is_open))
    return made


def _reversed(ways: _Next) -> _Next:
    """By the place of an instruction: those that may come before."""
    found: _Next = {place: [] for place in ways}
    for place, then in ways.items():
        for each in then:
            found[each].append(place)
    return found


def _reached(ways: _Next, begin: Iterable[int], without: int = -1) -> set[int]:
    """All places that these lead to, but through one of them."""
    found, ahead = set[int](), [*begin]
    while ahead:
        place = ahead.pop()
        if place not in found and place != without:
            found.add(place)
            ahead += ways[place]
    return found
