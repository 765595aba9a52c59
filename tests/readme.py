"""What documents show of commands: `make pictures` runs them, and tests compare what is there."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
FIRST_SEARCH = README.parent / "docs" / "get-started.md"
"""The page that shows a search of a shipped workload with its output."""
# A command and its output.
SHOWN = re.compile(r"```\n\$ (python -m tuner\.search --workload .*?)\n\n(.*?)\n```\n", re.DOTALL)
PROGRAM = re.compile(
    r"```\n\$ (python -m tuner\.(record|search|run) [^`]*?-- python main\.py)\n\n(.*?)\n```\n",
    re.DOTALL,
)
"""A command for the program of docs/your-own-program.md, its module, and what it prints."""
WIDTH = 100
"""The columns of the terminal that it runs on."""

_KEPT = {
    "record": (r"Recorded by ", r"Latency of calls\n", r"\w+ is the limit: "),
    "search": (r" +num_ ", r"(Use|Undecided|Keep) ", r"Against the baseline"),
    "run": ("",),
}
"""How the paragraphs of a command begin that the README shows; of others it says nothing."""
_ROW = re.compile(r"^ +(\d+) +([\d.]+) +([\d.]+)(?: \(([\d.]+) to ([\d.]+)\))? ", re.MULTILINE)


def shortened(module: str, output: str) -> str:
    """What the README shows of a command's output."""
    # What torch and the program say comes before, or between.
    if module == "record":
        output = output[output.index("Recorded by ") :]
    elif module == "run":
        output = "\n".join(re.findall(r"^(?:rpc-tuner|total): .*", output, re.MULTILINE))
    paragraphs = re.split(r"\n{2,}", output.strip("\n"))
    kept = [text for text in paragraphs if any(re.match(begin, text) for begin in _KEPT[module])]
    return "\n\n".join(kept)


def with_output(page: str, earlier: str, now: str) -> str:
    """A page that shows the paragraphs of an output, with those of a later one.

    Where they are not as many, the page stays as it is, and a test finds that it differs.
    """
    paragraphs = earlier.split("\n\n"), now.split("\n\n")
    if len(paragraphs[0]) == len(paragraphs[1]):
        for before, after in zip(*paragraphs, strict=True):
            page = page.replace(before, after)
    return page


class Ratio(tuple[int, float, float, float]):
    """Threads, times as fast as the baseline, and the interval's ends."""

    __slots__ = ()


def program_ratios(readme: str) -> list[Ratio]:
    """What the README's search of a program says of each configuration, in the table's order."""
    output = next(found[3] for found in PROGRAM.finditer(readme) if found[2] == "search")
    return [
        Ratio((int(row[1]), float(row[3]), float(row[4] or row[3]), float(row[5] or row[3])))
        for row in _ROW.finditer(output)
    ]
