"""Roles from RPC names, and the patterns that people give. Standard library only, for programs."""

import re
import warnings
from collections.abc import Iterable

from tuner.text import printable

PATTERNS_HELP = (
    "The RPC names of a role, as a regular expression. Default: the name without its digits."
)
"""Of the flag `--role`."""


def role_of(name: str, patterns: Iterable[tuple[str, str]] = ()) -> str:
    """The role of the process with this RPC name.

    The first of the `patterns`, pairs of a role and a regular expression, that matches all of the
    name decides. Where none does, the name without its digits is the role: `trainer3` is a
    `trainer`, `ps_0` a `ps`, `3` a `rank`.
    """
    for role, pattern in patterns:
        if re.fullmatch(pattern, name):
            return role
    return re.sub(r"[\d_:-]*\d[\d_:-]*", "", name).strip("_:-") or "rank"


def pattern_problem(text: str) -> str | None:
    """Why the text is no regular expression that can be used; None if it is one."""
    with warnings.catch_warnings():
        # `[[` may mean another thing in a later Python.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            re.compile(text)
        except RecursionError:
            return "nested too deeply"
        except (re.error, OverflowError) as error:
            return printable(str(error))
    return None
