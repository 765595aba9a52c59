"""What docs/your-own-workload.md tells a person to do is done here, word for word."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.errors import UsageError
from tuner.world.local.launcher import LocalLauncher

PAGE = (Path(__file__).parents[1] / "docs" / "your-own-workload.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the page, each named by its first line."""
    for text in (*blocks("python"), *blocks("toml")):
        name = text.split("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.world
def test_every_command_of_the_page_answers(folder: Path) -> None:
    commands = [shlex.split(line) for text in blocks("console") for line in text.splitlines()]
    assert len(commands) == 3
    for _, *arguments in commands:
        quick = ["--max-blocks", "3", "--min-time", "0.02s"]
        at = arguments.index("--budget")
        done = subprocess.run(
            [sys.executable, *arguments[:at], *arguments[at + 2 :], *quick],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "rpc.TensorPipeRpcBackendOptions(" in done.stdout
    assert (folder / "studies" / "sampler" / "recommended.json").exists()


MISTAKES = {
    "Smpler": (":Sampler", ":Smpler"),
    "define step": ("def step", "def stop"),
    "used 2 times": ('f"store{number}"', '"store0"'),
    "is empty": ('return [Rank("trainer", "trainer"), *stores]', "return []"),
    "no type": ("stores: int = 2", "stores = 2"),
}


@pytest.mark.world
@pytest.mark.parametrize("about", MISTAKES)
def test_every_mistake_gets_the_message_that_the_page_shows(folder: Path, about: str) -> None:
    before, after = MISTAKES[about]
    name = f"sampler.py{after if after.startswith(':') else ':Sampler'}"
    path = folder / "sampler.py"
    path.write_text(path.read_text().replace(before, after))
    with LocalLauncher() as launcher, pytest.raises(UsageError) as raised:
        launcher.describe(f"{folder}/{name}", {})
    message = str(raised.value).replace("`", "'").replace(f"{folder}/", "")
    (shown,) = [text for text in re.findall(r"\| `([^`]+)` \|", PAGE) if about in text]
    assert shown in message
