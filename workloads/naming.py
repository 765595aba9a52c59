"""What to say of a name that nothing has."""

import difflib
from collections.abc import Iterable


def unknown(what: str, name: str, known: Iterable[str], all_of_them: str) -> str:
    """The nearest known name if one is near, then the sentence that tells all of them."""
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else "."
    return f"unknown {what} {name!r}{hint} {all_of_them}"
