"""The role of a process, from its RPC name. Standard library only: it runs in programs, too."""

import re
from collections.abc import Iterable

PATTERNS_HELP = (
    "The RPC names of a role, as a regular expression. Default: the name without its digits."
)
"""Of the flag `--role`."""


def role_of(name: str, patterns: Iterable[tuple[str, str]] = ()) -> str:
    """The role of the process with this RPC name.

    Args:
        name: The RPC name, such as `trainer3`.
        patterns: Pairs of a role and a regular expression that its names match whole; the first
            one that matches decides.

    Returns:
        The role: the name without its digits where no pattern matches (`trainer3` is a `trainer`,
        `ps_0` a `ps`, `3` a `rank`).
    """
    for role, pattern in patterns:
        if re.fullmatch(pattern, name):
            return role
    return re.sub(r"[\d_:-]*\d[\d_:-]*", "", name).strip("_:-") or "rank"
