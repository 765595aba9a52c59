"""What to say of a name that nothing has."""

import difflib
from collections.abc import Iterable, Mapping


def unknown(what: str, name: str, known: Iterable[str], all_of_them: str) -> str:
    """The nearest known name if one is near, then the sentence that tells all of them."""
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else "."
    return f"unknown {what} {name!r}{hint} {all_of_them}"


def unknown_workload(name: str, known: Iterable[str]) -> str:
    """What to say of a workload that is neither shipped nor named as a class."""
    names = list(known)
    all_of_them = (
        f"Known: {', '.join(names)}; "
        "your own is named package.module:Class or path/to/file.py:Class"
    )
    return unknown("workload", name, names, all_of_them)


def unknown_option(name: str, known: Mapping[str, tuple[str, object]]) -> str:
    """What to say of an option that a workload lacks; `known` has the kind and default of each."""
    told = ", ".join(f"{each} ({kind}, {default!r})" for each, (kind, default) in known.items())
    all_of_them = f"The options are: {told}" if told else "It has no options."
    return unknown("option", name, known, all_of_them)
