"""Does what docs/your-own-workload.md tells a person to do, word for word."""

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cheap_studies import *  # noqa: F403 - fixtures, for the searches in this process
from tests.fakes import FakeLauncher
from tuner import search
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


@pytest.fixture
def signal_handlers() -> Iterator[None]:
    """Restored afterwards: a command handles Ctrl-C in its own way."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def commands() -> list[list[str]]:
    """The arguments of `python` in each command of the page, made quick."""
    lines = [shlex.split(line) for text in blocks("console") for line in text.splitlines()]
    assert len(lines) == 3
    assert all(line[0] == "python" and line[-2] == "--budget" for line in lines)
    return [[*line[1:-2], "--max-blocks", "1", "--min-time", "0.02s"] for line in lines]


@pytest.mark.world
def test_the_first_command_of_the_page_answers(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, *commands()[0]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "rpc.TensorPipeRpcBackendOptions(" in done.stdout
    assert (folder / "studies" / "sampler" / "recommended.json").exists()


@pytest.mark.world
@pytest.mark.usefixtures("signal_handlers")
def test_the_other_commands_of_the_page_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The workload is really described; its worlds are fakes."""
    fake = FakeLauncher()
    monkeypatch.setattr(LocalLauncher, "run", lambda self, order: fake.run(order))
    monkeypatch.chdir(folder)
    for _, module, *arguments in commands()[1:]:
        assert module == "tuner.search"
        assert search.main(arguments) == 0
        assert "rpc.TensorPipeRpcBackendOptions(" in capsys.readouterr().out
    options = [order.workload.options for order in fake.orders]
    assert {"stores": 1, "requests": 8, "width": 16} in options
    assert {"stores": 2, "requests": 4, "width": 64} in options


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
