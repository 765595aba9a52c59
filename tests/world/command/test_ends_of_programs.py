"""Programs of which a process ends, or a call raises: who is named, and which go well anyway."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.launching import Launched, launched
from testing.programs import PROGRAMS, PYTHON, free_port
from tests.world.command.recorded import python
from tuner import record
from tuner.trace.files.reader import read_trace
from tuner.world.measurement import Failure

pytestmark = [pytest.mark.world, pytest.mark.thorough]

RAISED = "trainer2 failed first: RuntimeError: a variable was modified by an inplace operation"
LEFT = "trainer2 ended without shutdown, and others wait for it"
SERVED = (
    "server0 failed first: AttributeError: 'int' object has no attribute 'nothing' (in a call that "
    "server0 served)"
)
LONGEST_S = 40.0
"""The deadline is a minute, and a busy machine takes a while to start a program."""


def one_ends(start: str) -> list[str]:
    return python("one_ends.py", free_port(), start)


def all_ranks(start: str) -> list[list[str]]:
    """The commands of the program, one for each rank, or the one of torchrun."""
    port = free_port()
    if start == "beside":
        return [python("one_ends.py", port, str(rank)) for rank in range(3)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    return [[*PYTHON, *torchrun, str(PROGRAMS / "one_ends.py"), port, "torchrun"]]


@pytest.fixture(scope="module")
def joined() -> Iterator[Launched]:
    """A parent that joins its children, whatever becomes of them, and exits with 0."""
    with launched(one_ends("spawn")) as running:
        yield running


def failed(running: Launched, folder: Path) -> Failure:
    began_s = time.monotonic()
    failure = running.failed(failure_folder=folder)
    assert time.monotonic() - began_s < LONGEST_S
    assert failure.failure == "crashed"
    assert failure.message.endswith(f"; see {folder.parent.name}/{folder.name}")
    assert json.loads((folder / "failure.json").read_text())["message"] == failure.message
    return failure


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("2 raises", RAISED),
        ("2 killed", "trainer2 "),  # its parent may have asked for its exit code before us
        ("2 leaves", LEFT),
        ("2 thread", "trainer2 failed first: AttributeError: 'int' object has no attribute"),
        ("2 served", SERVED),
    ],
)
def test_the_rank_that_ends_is_named_though_its_parent_goes_on(
    joined: Launched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str, message: str
) -> None:
    monkeypatch.setenv("ONE_END", end)
    folder = tmp_path / "failures" / "one"
    failure = failed(joined, folder)
    assert failure.message.startswith(message)
    if end == "2 raises":
        assert "in end\n" in failure.detail
        assert "server0 in shutdown, trainer1 in shutdown, trainer2 gone" in failure.message
        assert "inplace operation" in (folder / "output").read_text()
        assert list(folder.glob("server0-*.stacks"))


@pytest.mark.parametrize("start", ["beside", "torchrun"])
def test_it_is_named_however_the_ranks_were_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: str
) -> None:
    with launched(*all_ranks(start)) as running:
        monkeypatch.setenv("ONE_END", "2 raises")
        failure = failed(running, tmp_path / "failures" / "one")
    assert failure.message.startswith(RAISED)
    assert failure.rank == "trainer2"


@pytest.fixture(scope="module")
def going_well() -> Iterator[Launched]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SITUATION", "killed")
        with launched(python("situations.py", free_port())) as running:
            yield running


@pytest.mark.parametrize(("situation", "calls"), [("killed", 50), ("ends_shutdown", 50),
                                                  ("retries", 2)])  # fmt: skip
def test_a_process_may_end_and_a_call_may_raise_where_the_program_goes_on(
    going_well: Launched, monkeypatch: pytest.MonkeyPatch, situation: str, calls: int
) -> None:
    monkeypatch.setenv("SITUATION", situation)
    assert going_well.counted() == calls


@pytest.mark.parametrize(("end", "first"), [("2 raises", RAISED), ("2 served", SERVED)])
def test_a_recorded_program_that_waits_in_vain_is_ended_and_has_failed_whatever_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], end: str,
    first: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("ONE_END", end)
    out = ["--out", str(tmp_path / "trace.json"), "--no-timeline"]
    assert record.main([*out, "--", *one_ends("patient")]) == 1
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("rpc-tuner:")]
    assert said == [
        f"rpc-tuner: {first}",
        "rpc-tuner: no rank does anything any more, so the program is ended",
    ]
    trace = read_trace(tmp_path / "trace.json")
    assert {"server0", "trainer1"} <= {rank.name for rank in trace.ranks}
    assert len(trace.calls) > 20
