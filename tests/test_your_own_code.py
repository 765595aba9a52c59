"""Does what docs/your-own-program.md and docs/your-own-workload.md tell, word for word."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from testing.cheap_studies import *  # noqa: F403 - fixtures, for the searches in this process
from testing.fakes import FakeLauncher
from testing.programs import free_port
from tests.commands.running import in_this_process
from tuner import record, run
from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft, draft_plan, read_plan_file
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.workload_spec import RankSpec, WorkloadSpec
from tuner.roles import role_of
from tuner.trace.files.reader import read_trace
from tuner.world.command.program_launcher import ProgramLauncher
from tuner.world.launcher import RunAsItIs
from tuner.world.local.local_launcher import LocalLauncher

ROOT = Path(__file__).parents[1]
OF_PROGRAM, OF_WORKLOAD, TROUBLESHOOTING = (
    (ROOT / "docs" / f"{name}.md").read_text()
    for name in ("your-own-program", "your-own-workload", "troubleshooting")
)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```(?:{language})\n(.*?)```", page, re.DOTALL)


def commands(page: str, name: str) -> list[list[str]]:
    """The arguments of each `rpc-tuner NAME` of a page."""
    lines = [shlex.split(line) for text in blocks(page, "console") for line in text.splitlines()]
    # Of other commands nothing is known here.
    assert {tool for tool, *_ in lines} == {"rpc-tuner"}
    assert len(lines) == {OF_PROGRAM: 5, OF_WORKLOAD: 4}[page]
    found = [arguments for _, each, *arguments in lines if each == name]
    assert found
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the pages, each named by its first line, where we are."""
    for page in (OF_PROGRAM, OF_WORKLOAD):
        for text in blocks(page, "python|toml"):
            name = text.split("\n")[0].removeprefix("# ")
            # Other tests may run a program with the page's port.
            (tmp_path / name).write_text(text.replace("29500", free_port()))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def searches_of_program() -> list[list[str]]:
    """Those that search, made quick."""
    return [
        ["--max-blocks", "1", *(word.replace("1,2,4,8,16", "2,16") for word in arguments)]
        for arguments in commands(OF_PROGRAM, "search")
    ]


@pytest.mark.world
@pytest.mark.thorough
def test_the_program_is_recorded(capfd: pytest.CaptureFixture[str]) -> None:
    (arguments,) = commands(OF_PROGRAM, "record")
    assert record.main(arguments) == 0
    shown = capfd.readouterr().out
    assert "2 ranks (client, server1)" in shown
    waited = "client waited while calls of look_up queued for a thread of server1."
    assert all(waited in " ".join(text.split()) for text in (OF_PROGRAM, shown))
    assert len(read_trace(Path("trace.json")).calls) == 160


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.reads_traces
def test_the_program_is_searched_and_run(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = in_this_process(*searches_of_program()[0], cwd=folder)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +2 .* baseline *$", done.stdout, re.MULTILINE)
    (arguments,) = commands(OF_PROGRAM, "run")
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
        calls=(160, 160), shuts_down=True, own_network=False,
    )  # fmt: skip


def test_the_other_searches_of_the_program_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they ask for is really read; the runs are fakes."""
    fake = FakeLauncher()
    monkeypatch.setattr(
        ProgramLauncher,
        "inspect",
        lambda self, draft, *more: iter([RunAsItIs(as_it_is(draft), None, 0.0)]),
    )
    monkeypatch.setattr(ProgramLauncher, "run", lambda self, order: fake.run(order))
    for arguments in searches_of_program()[1:]:
        fake.orders.clear()
        # The fakes have no program's numbers.
        done = in_this_process("--objective", "cpu_s", *arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
        for role, expected in (("server", {2, 8}), ("client", {2})):
            values = [order.config.for_role(role) for order in fake.orders]
            assert {value["num_worker_threads"] for value in values} == expected


def test_a_message_of_the_page_of_troubles_is_the_one_that_is_given() -> None:
    Path("main.py").touch()
    draft = draft_plan({"program": ["main.py"]})
    with ProgramLauncher() as launcher, pytest.raises(UsageError) as raised:
        launcher.subject_of(draft)
    assert str(raised.value).removeprefix("the program: ") in TROUBLESHOOTING


@pytest.mark.world
@pytest.mark.thorough
def test_the_program_of_the_shipped_plan_runs_as_its_plan_says(
    capfd: pytest.CaptureFixture[str],
) -> None:
    keys = read_plan_file(ROOT / "studies" / "batch_updates.toml")
    python, script, *arguments = keys["program"]
    text = (ROOT / script).read_text().replace("29500", free_port())
    Path("batch_updates.py").write_text(text)
    threads = ["--config", "ps.num_worker_threads=1", "--config", "trainer.num_worker_threads=2"]
    assert run.main([*threads, "--", python, "batch_updates.py", *arguments]) == 0
    printed = capfd.readouterr()
    assert re.search(keys["expect"], printed.out)
    assert "rpc-tuner: ps has num_worker_threads=1\n" in printed.err
    assert "rpc-tuner: trainer3 has num_worker_threads=2\n" in printed.err


def answer_of_workload(number: int) -> None:
    """Run a search of the page, made quick, in this process."""
    arguments = commands(OF_WORKLOAD, "search")[number]
    assert arguments[-2] == "--budget"
    quick = [*arguments[:-2], "--max-blocks", "1", "--min-time", "0.02s"]
    done = in_this_process(*quick, cwd=Path())
    assert done.returncode == 0, done.stderr
    assert [*Path("studies").glob("*/answer.json")]


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.reads_traces
@pytest.mark.parametrize(("number", "study"), [(0, "sampler.Sampler"), (3, "cache.Cache")])
def test_the_workloads_are_measured(number: int, study: str) -> None:
    answer_of_workload(number)
    assert Path("studies", study, "recommended.json").exists()


@pytest.mark.world
@pytest.mark.thorough
def test_the_other_searches_of_the_workload_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workload is really described; its worlds are fakes."""
    fake = FakeLauncher()
    monkeypatch.setattr(LocalLauncher, "run", lambda self, order: fake.run(order))
    for number in (1, 2):
        answer_of_workload(number)
    subjects = [order.subject for order in fake.orders]
    options = [subject.options for subject in subjects if isinstance(subject, WorkloadSpec)]
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
    (shown,) = [text for text in re.findall(r"\| `([^`]+)` \|", OF_WORKLOAD) if about in text]
    assert shown in message
