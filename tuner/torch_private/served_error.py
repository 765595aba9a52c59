"""What a served function raised, as PyTorch tells its caller. Standard library only, for ranks."""

import re

_SERVED_BY = re.compile(r"On WorkerInfo\(id=\d+, name=(.*?)\):\n")
_AT = re.compile(r"^At:$", re.MULTILINE)
_END = "_handle_exception"
"""With this PyTorch ends the text of such an error."""
_MOST_TEXT = 10_000


def error_text(error: BaseException, where: str = "") -> str:
    """An exception in one line, and if a call raised it, who served that call.

    Args:
        error: The exception.
        where: What follows if no other rank raised it.
    """
    if isinstance(error, SystemExit):
        text = f"sys.exit({error.code!r})"
    else:
        text = f"{type(error).__name__}: {error}".strip()
    told = served_error(text) or f"{text.split(chr(10))[0].removesuffix(':')[:_MOST_TEXT]}{where}"
    return sound(told)


def sound(text: str) -> str:
    """What can be written: the names of files may hold what is no UTF-8."""
    return text.encode(errors="replace").decode()


def served_error(text: str) -> str | None:
    """The error that a text ends with, if a served function raised it, and who served that.

    Args:
        text: The text of an exception, or what a program has printed.

    Returns:
        `ValueError: bad row 7 (in a call that worker1 served)`, of the innermost call; None if the
        text ends with something else.
    """
    *_, last = text.rstrip().splitlines() or [""]
    found = [*_SERVED_BY.finditer(text)]
    if not found or not last.endswith(_END):
        return None
    raised, *at = _AT.split(text[found[-1].end() :])
    told = [line.strip() for line in raised.splitlines() if line.strip()]
    return f"{told[-1]} (in a call that {found[-1][1]} served)" if told and at else None
