"""Python source for a configuration, in the layout of ruff and Black."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.plan.knobs import Value
from tuner.world.agent_options import agent_options

WIDTH = 88

# PyTorch has no public arguments for these two.
_PRIVATE = {"transports": "_transports", "channels": "_channels"}


@dataclass(frozen=True)
class Code:
    """An expression: `head` alone, or parts in brackets between `head` and `tail`."""

    head: str
    parts: tuple["Code", ...] = ()
    tail: str = ""

    def __str__(self) -> str:
        """On one line."""
        return f"{self.head}{', '.join(map(str, self.parts))}{self.tail}"

    def labelled(self, label: str) -> "Code":
        """The same after a keyword, a key, or the left side of an assignment."""
        return Code(label + self.head, self.parts, self.tail)

    def lines(self, indent: int = 0, *, spread: bool = False) -> list[str]:
        """On one line if it fits with a comma after it; else, or to `spread` it, part by part."""
        margin = " " * indent
        line = f"{margin}{self}"
        if not self.parts or (len(line) < WIDTH and not spread):
            return [line]
        lines = [margin + self.head]
        for part in self.parts:
            *start, end = part.lines(indent + 4)
            lines += [*start, f"{end},"]
        return [*lines, margin + self.tail]


def literal(value: Any) -> Code:
    """A string, number, list, tuple or dict as source."""
    if isinstance(value, Mapping):
        return table((key, literal(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return Code("[", tuple(map(literal, value)), "]")
    if isinstance(value, tuple):
        return Code("(", tuple(map(literal, value)), ")")
    text = repr(value)
    if isinstance(value, str) and text.startswith("'") and '"' not in text:
        text = f'"{text[1:-1]}"'
    return Code(text)


def table(items: Iterable[tuple[str, Code]]) -> Code:
    """A dict whose values are expressions."""
    return Code("{", tuple(value.labelled(f"{literal(key)}: ") for key, value in items), "}")


def options_call(values: Mapping[str, Value]) -> Code:
    """The call that makes the options object from these values."""
    arguments = tuple(
        literal(value).labelled(f"{_PRIVATE.get(name, name)}=")
        for name, value in agent_options(values).items()
    )
    return Code("rpc.TensorPipeRpcBackendOptions(", arguments, ")")
