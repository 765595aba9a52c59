"""What documents show of commands: `make pictures` runs them, and tests compare what is there."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
FIRST_SEARCH = README.parent / "docs" / "get-started.md"
"""The page that shows a search of a shipped workload with its output."""
# A command and its output.
SHOWN = re.compile(r"```\n\$ (rpc-tuner search --workload .*?)\n\n(.*?)\n```\n", re.DOTALL)
PROGRAM = re.compile(
    r"```\n\$ (rpc-tuner (record|search|run) [^`]*?-- python main\.py)\n\n(.*?)\n```\n", re.DOTALL
)
"""A command for the program of docs/your-own-program.md, its name, and what it prints."""
WIDTH = 80
"""The columns of the terminal that it runs on."""
_ROW = re.compile(r"^ +(\d+) +([\d.]+) +([\d.]+)(?: \(([\d.]+) to ([\d.]+)\))? ", re.MULTILINE)


def shortened(name: str, output: str) -> str:
    """What the README shows of a command's output, without what torch and the program say."""
    if name == "run":
        return "\n".join(re.findall(r"^(?:rpc-tuner|total): .*", output, re.MULTILINE))
    begins = {"record": r"^.* limit\b", "search": r"^(Use|Keep|A tie|Not decided)"}[name]
    found = re.search(begins, output, re.MULTILINE)
    assert found, output
    return output[found.start() :]


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
