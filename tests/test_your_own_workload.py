"""Does what docs/your-own-workload.md tells a person to do, word for word."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cheap_studies import *  # noqa: F403 - fixtures, for the searches in this process
from tests.commands.running import in_this_process
from tests.fakes import FakeLauncher
from tuner.errors import UsageError
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.local.local_launcher import LocalLauncher

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


def commands() -> list[list[str]]:
    """The arguments of `python` in each command of the page, made quick."""
    lines = [shlex.split(line) for text in blocks("console") for line in text.splitlines()]
    assert len(lines) == 4
    assert all(line[0] == "python" and line[-2] == "--budget" for line in lines)
    return [[*line[1:-2], "--max-blocks", "1", "--min-time", "0.02s"] for line in lines]


def answer(folder: Path, command: list[str]) -> str:
    """What the command prints, run in this process."""
    _, module, *arguments = command
    assert module == "tuner.search"
    done = in_this_process(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.reads_traces
def test_the_first_command_of_the_page_answers(folder: Path) -> None:
    assert "rpc.TensorPipeRpcBackendOptions(" in answer(folder, commands()[0])
    assert (folder / "studies" / "sampler.Sampler" / "recommended.json").exists()


@pytest.mark.world
@pytest.mark.thorough
def test_clients_with_loops_of_their_own_are_measured(folder: Path) -> None:
    assert "rpc.TensorPipeRpcBackendOptions(" in answer(folder, commands()[3])
    assert (folder / "studies" / "cache.Cache" / "recommended.json").exists()


@pytest.mark.world
@pytest.mark.thorough
def test_the_other_commands_of_the_page_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workload is really described; its worlds are fakes."""
    fake = FakeLauncher()
    monkeypatch.setattr(LocalLauncher, "run", lambda self, order: fake.run(order))
    for command in commands()[1:3]:
        assert "rpc.TensorPipeRpcBackendOptions(" in answer(folder, command)
    subjects = [order.subject for order in fake.orders]
    options = [each.options for each in subjects if isinstance(each, WorkloadSpec)]
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
@pytest.mark.thorough
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
