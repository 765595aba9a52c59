"""Exceptions: what a served function raised, and tracebacks without our frames.

Standard library only: it runs in ranks and in programs.
"""

import functools
import re
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

# In the text of a KeyError, a `repr`, the ends of lines are escaped.
_SERVED_BY = re.compile(r"On WorkerInfo\(id=\d+, name=(.*?)\):(\n|\\n)")
_ESCAPED = re.compile(r"\\(.)")
_TRACEBACK = "Traceback (most recent call last):"
_END = "_handle_exception"
"""With this PyTorch ends the text of such an error."""
MOST_TEXT = 10_000
"""Characters of a text that a process reports; a longer one is cut."""
_P = ParamSpec("_P")
_T = TypeVar("_T")
_OUR_PACKAGE = __name__.partition(".")[0] + "."


class Served(NamedTuple):
    """What a served function raised: first lines."""

    server: str
    shown: str
    """As `repr` shows it."""
    line: str
    """As a traceback shows it; empty if there is none."""


def error_text(error: BaseException, where: str = "") -> str:
    """An exception in one line, and who served the call that raised it, or else `where`."""
    if isinstance(error, SystemExit):
        text = f"sys.exit({error.code!r})"
    else:
        text = f"{type(error).__name__}: {error}".strip()
    line = served_error(text)
    if line is None and str(error)[:20].lstrip("'").startswith("On WorkerInfo("):
        line = _sentence(served(text, innermost=True))  # as `to_here` raises it
    if line is None:
        line = f"{text.split(chr(10))[0].removesuffix(':')[: MOST_TEXT - len(where)]}{where}"
    return sound(line)[:MOST_TEXT]


def sound(text: str) -> str:
    """What can be written: the names of files may hold what is no UTF-8."""
    return text.encode(errors="replace").decode()


def served_error(text: str) -> str | None:
    """`ValueError: bad row 7 (in a call that worker1 served)`, if a text ends with such an error.

    The text is an exception's, or what a program has printed. Of nested calls the innermost one is
    named; None if the text ends with something else.
    """
    *_, last = text.rstrip().splitlines() or [""]
    return _sentence(served(text, innermost=True)) if last.endswith(_END) else None


def _sentence(raised: Served | None) -> str | None:
    if raised is None or not raised.line:
        return None
    return f"{raised.line} (in a call that {raised.server} served)"


def served(text: str, *, innermost: bool) -> Served | None:
    """What a served function raised, by the text of the exception that its caller gets.

    Of nested calls the `innermost`, or else the outermost, is meant. None for any other text.
    """
    found = [*_SERVED_BY.finditer(text)]
    if not found:
        return None
    by = found[-1 if innermost else 0]
    sent = text[by.end() :]
    if by[2] != "\n":
        sent = _ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], sent.split("\n")[0])
    _, is_there, frames = sent.rpartition(_TRACEBACK)
    # Its frames are indented.
    ends = [line for line in frames.splitlines() if line[:1].strip()] if is_there else []
    shown = sent.split("\n")[0]
    # PyTorch breaks a line of the source where that has an escaped end of line.
    is_line = re.compile(rf"([\w.<>]+\.)?{re.escape(shown.partition('(')[0])}\b").match
    return Served(by[1], shown, next(filter(is_line, ends), "".join(ends[:1])).strip())


def unseen_in_tracebacks(func: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function of ours that stands in for one that the program calls: no error shows it."""

    @functools.wraps(func)
    def unseen(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return func(*args, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise

    return unseen


def without_our_frames(error: BaseException) -> None:
    """Leave out of an error's traceback the frames at its beginning that are this package's.

    A function of ours that the program, or PyTorch, has called catches what it lets pass, calls
    this, and raises again with a bare `raise`: for that, Python adds no frame to the traceback.
    """
    trace = error.__traceback__
    while trace and str(trace.tb_frame.f_globals.get("__name__")).startswith(_OUR_PACKAGE):
        trace = trace.tb_next
    error.__traceback__ = trace
