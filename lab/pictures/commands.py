"""The README's commands that show no output: `make pictures` runs each of them, too."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from testing.readme import PROGRAM
from testing.serving import dashboard

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"```\n(.*?)```\n", re.DOTALL)
_PYTHON_BLOCK = re.compile(r"```python\n(.*?)```\n", re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"(python -m tuner|rpc-tuner|make|pip install|\. \.venv)\b")

FILLED = {
    "STUDY": "udf-400",
    "[STUDY]": "",
    "NAME": "list",
    "tuner.NAME": "tuner.list",
    "TRACE...": "studies/udf-400/traces/num_worker_threads=1.json",
    "recommended.json": "studies/main/recommended.json",
}
"""What a person puts where the README has a name of its own."""
OF_CI = ("test", "test-all", "quick", "check", "docs", "bench", "pictures")
"""The goals of the Makefile that CI and releases run, or that run this."""
QUICK = {
    "search": ["--budget", "60s", "--overwrite"],
    "--check": ["--max-blocks", "8"],
}
"""What is added so that a command does not take its minutes a second time."""


def commands(readme: str) -> list[str]:
    """Every command of the README, once, but those that show their output."""
    blocks = _BLOCK.sub(
        lambda found: "" if found[1].startswith("$ ") else found[0], _PYTHON_BLOCK.sub("", readme)
    )
    lines = [
        line.partition("    # ")[0].strip()
        for block in _BLOCK.findall(blocks)
        for line in block.replace("\\\n", " ").splitlines()
    ]
    inline = [" ".join(each.split()) for each in _INLINE.findall(_BLOCK.sub("", blocks))]
    found = dict.fromkeys(each for each in [*lines, *inline] if _COMMAND.match(each))
    return [each for each in found if each not in shown(readme)]


def shown(readme: str) -> list[str]:
    """The commands that show their output, which is replaced by what they print now."""
    return [match[1] for match in PROGRAM.finditer(readme)]


def as_run(command: str) -> list[str]:
    """The words of a command as they are run. ValueError for one that nobody has thought of."""
    words = [FILLED.get(word, word) for word in shlex.split(command.replace("\\\n", " "))]
    match [word for word in words if word]:
        case ["make", "search"]:
            return ["make", "search"]
        case ["make", goal] if goal in OF_CI:
            return ["make", "--dry-run", goal]
        case ["pip", "install", *what]:
            return [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", *what]
        case [".", activate]:
            return ["sh", "-c", f". {activate}"]
        case ["python", "-m", module, *rest] if module.startswith("tuner."):
            return [sys.executable, "-m", module, *_asked(module.removeprefix("tuner."), rest)]
        case ["rpc-tuner", name, *rest]:
            return [sys.executable, "-m", "tuner", name, *_asked(name, rest)]
    raise ValueError(f"nobody has said how {command!r} of the README is run")


def _asked(name: str, rest: list[str]) -> list[str]:
    """What a command is asked for; one that stands there for itself shows its help."""
    if not rest:
        return [] if name in ("list", "dashboard") else ["--help"]
    quick = next((QUICK[key] for key in (*rest, name) if key in QUICK), [])
    return [*quick, *rest]


def run_all(readme: str, where: Path) -> None:
    """Run every command that shows no output; ends with an error at the first that fails.

    Args:
        readme: The text of the README.
        where: A folder with its files and the studies of its commands that show their output.
    """
    for command in commands(readme):
        words = as_run(command)
        print(f"{command}  ->  {shlex.join(words[-6:])}", flush=True)
        # Of the project's folder, or of the folder of a person's program.
        cwd = ROOT if words[0] in ("make", "sh") or "pip" in words else where
        if words[-1].endswith("dashboard"):
            with dashboard(command=words, cwd=cwd):
                pass  # it serves until it is interrupted
        else:
            subprocess.run(words, cwd=cwd, env=environment(), check=True, capture_output=True)


def environment() -> dict[str, str]:
    """The environment of a README's command: this interpreter, and the checkout's package."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # A dumb terminal: text without colours.
    return {**os.environ, "TERM": "dumb", "PYTHONPATH": str(ROOT), "PATH": path}


def write_files(page: str, where: Path) -> None:
    """Write the files that a page shows: each block of Python that begins with its name."""
    for text in _PYTHON_BLOCK.findall(page):
        if named := re.match(r"# (\w+\.py)\n", text):
            (where / named[1]).write_text(text)
