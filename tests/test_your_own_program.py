"""Does what docs/your-own-program.md tells a person to do, word for word."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.cheap_studies import *  # noqa: F403 - fixtures, for the searches in this process
from tests.commands.running import in_this_process
from tests.fakes import FakeLauncher
from tests.programs.running import free_port
from tuner import record, run
from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft, draft_plan, read_plan_file
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.workload_spec import RankSpec
from tuner.roles import role_of
from tuner.trace.files.reader import read_trace
from tuner.world.command.program_launcher import ProgramLauncher

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "your-own-program.md").read_text()
TROUBLESHOOTING = (ROOT / "docs" / "troubleshooting.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page, each named by its first line, where we are."""
    for text in (*blocks("python"), *blocks("toml")):
        name = text.split("\n")[0].removeprefix("# ")
        # Other tests may run a program with the page's port.
        (tmp_path / name).write_text(text.replace("29500", free_port()))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(module: str) -> list[list[str]]:
    """The arguments of each command of the page that runs this module."""
    lines = [shlex.split(line) for text in blocks("console") for line in text.splitlines()]
    assert len(lines) == 5
    return [line[3:] for line in lines if line[:3] == ["python", "-m", module]]


def searches() -> list[list[str]]:
    """Those that search, made quick."""
    quick = [["--max-blocks", "1", *arguments] for arguments in commands("tuner.search")]
    return [[each.replace("1,2,4,8,16", "2,16") for each in arguments] for arguments in quick]


@pytest.mark.world
@pytest.mark.thorough
def test_the_program_is_recorded(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (arguments,) = commands("tuner.record")
    assert record.main(arguments) == 0
    shown = capfd.readouterr().out
    assert "2 ranks (client, server1)" in shown
    assert "up to 2 at once, that were off the CPU: if they waited for each other, or" in shown
    assert len(read_trace(folder / "trace.json").calls) == 160


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.reads_traces
def test_the_program_is_searched_and_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = in_this_process(*searches()[0], cwd=folder)
    assert done.returncode == 0, done.stderr
    (first,) = re.findall(r"^each run starts warm: .*\ncomparing the .*$", PAGE, re.MULTILINE)
    assert done.stderr.startswith(f"setting up\n{first}\n")
    assert re.search(r"^ +2 .* baseline *$", done.stdout, re.MULTILINE)
    (arguments,) = commands("tuner.run")
    capfd.readouterr()
    assert run.main(arguments) == 0
    printed = capfd.readouterr()
    assert printed.out == "total: 1272000\n"
    told = re.findall(r"rpc-tuner: (\w+) has num_worker_threads=\d+\n", printed.err)
    assert sorted(told) == ["client", "server1"]


def as_it_is(draft: PlanDraft) -> ProgramSpec:
    """The page's program, as the first runs of it show it."""
    assert draft.program is not None
    patterns = draft.program.role_patterns
    return ProgramSpec(
        **draft.program.model_dump(),
        ranks=tuple(RankSpec(name=name, role=role_of(name, patterns))
                    for name in ("client", "server1")),
        own={role: {"num_worker_threads": 2} for role in ("client", "server")},
        calls=(160, 160),
        shuts_down=True,
        own_network=False,
    )  # fmt: skip


@pytest.mark.world
@pytest.mark.thorough
def test_the_other_searches_of_the_page_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they ask for is really read; the runs are fakes."""
    fake = FakeLauncher()
    monkeypatch.setattr(ProgramLauncher, "subject_of", lambda self, draft, *more: as_it_is(draft))
    monkeypatch.setattr(ProgramLauncher, "run", lambda self, order: fake.run(order))
    for arguments in searches()[1:]:
        fake.orders.clear()
        # The fakes have no program's numbers.
        done = in_this_process("--objective", "cpu_s", *arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
        for role, expected in (("server", {2, 8}), ("client", {2})):
            values = [order.config.for_role(role) for order in fake.orders]
            assert {each["num_worker_threads"] for each in values} == expected


def test_a_message_of_the_page_of_troubles_is_the_one_that_is_given() -> None:
    Path("main.py").touch()
    draft = draft_plan({"program": ["main.py"]})
    with ProgramLauncher() as launcher, pytest.raises(UsageError) as raised:
        launcher.subject_of(draft)
    assert str(raised.value).removeprefix("the program: ") in TROUBLESHOOTING


@pytest.mark.world
@pytest.mark.thorough
def test_the_program_of_the_shipped_plan_runs_as_its_plan_says(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = read_plan_file(ROOT / "studies" / "batch_updates.toml")
    python, script, *arguments = keys["program"]
    text = (ROOT / script).read_text().replace("29500", free_port())
    (folder / "batch_updates.py").write_text(text)
    threads = ["--config", "ps.num_worker_threads=1", "--config", "trainer.num_worker_threads=2"]
    assert run.main([*threads, "--", python, "batch_updates.py", *arguments]) == 0
    printed = capfd.readouterr()
    assert re.search(keys["expect"], printed.out)
    assert "rpc-tuner: ps has num_worker_threads=1\n" in printed.err
    assert "rpc-tuner: trainer3 has num_worker_threads=2\n" in printed.err
