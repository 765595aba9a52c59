"""Programs of bug reports, plainly and recorded: they print the same, and nothing is left."""

import re
import subprocess
from collections.abc import Callable

import psutil
import pytest

from testing.programs import free_port
from tests.world.command.recorded import Recorded, python, recorded
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.headroom import least_threads

pytestmark = [pytest.mark.world, pytest.mark.thorough]

LONGEST_S = 60.0
# What differs from run to run: addresses, process ids, times, and what PyTorch's threads log.
_CHANGING = re.compile(r"0x[0-9a-f]+|\d{4,}|\d+\.\d+(?= s\b)")
# The stack of C++, in a text or in the repr of one; which it is depends on what came first.
_STACK = re.compile(r"(\n|\\+n)frame #\d+: .*")
_LOGGED = re.compile(r"(\[rank\d+\]:)?\[[IWE]\d{4} ")


def lines_of(text: str) -> list[str]:
    """The lines that a program prints, in an order that its ranks do not change."""
    text = "\n".join(splitline for splitline in text.splitlines() if not _LOGGED.match(splitline))
    lines = _CHANGING.sub("#", _STACK.sub("", text)).splitlines()
    return sorted(line for line in lines if line and not line.startswith("calls: "))


def plainly(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    return done.returncode, done.stdout + done.stderr


def run_both(command: Callable[[], list[str]], capfd: pytest.CaptureFixture[str]) -> Recorded:
    """Run a program plainly and recorded; all that it printed is compared."""
    code, printed = plainly(command())
    capfd.readouterr()
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    run = recorded(*command())
    errors = capfd.readouterr().err
    assert run.end.exit_code == code
    assert lines_of(run.printed + errors) == lines_of(printed)
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    assert left == []
    assert "tuner" not in run.printed
    return run


def situation() -> list[str]:
    """The one that the environment names."""
    return python("situations.py", free_port())


FEW = "No clear limit: the trace holds only "


@pytest.mark.parametrize(
    ("name", "first", "losses"),
    [
        ("silent", "20 of 40 calls of store raised KeyError.", ""),
        ("remote", "4 of 6 calls of store raised KeyError.", ""),
        ("limits", "1 of 2 calls of to_here timed out after 200ms.", ""),
        ("still_sending", "", ""),
        ("left_alive", FEW, ""),
        ("loads_data", "No clear limit: the trace does not show how any call was served", ""),
        ("own_pickler", "1 of 1 call of store raised KeyError.", ""),
        ("tries_again", FEW, ""),
        ("joins_late", "", ""),
        ("script_inside", "", ""),
        ("script_only", "No clear limit: the trace does not show how any call was served", ""),
        ("killed", "", "server1 ended suddenly, by a signal or os._exit"),
    ],
)
def test_a_recorded_program_is_the_program(
    name: str,
    first: str,
    losses: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It prints the same, each call that it counts is in the trace, and the diagnosis is true."""
    monkeypatch.setenv("SITUATION", name)
    run = run_both(situation, capfd)
    trace = run.trace
    # Each of three threads may have a call under way when RPC is shut down.
    unknown = 3 if name == "still_sending" else 0
    assert abs(len(trace.calls) - run.counted) <= unknown
    # What runs without Python is not seen where it is served.
    is_python = (trace.calls["kind"] != "to_here") & (trace.calls["body"] == "python")
    assert (trace.calls.loc[is_python, "link"] != "exact").sum() <= unknown
    # Nothing is promised where calls may wait for what the trace does not show.
    if name.startswith("script"):
        assert all(thread.least is None for thread in least_threads(trace))
    assert [loss[: len(losses)] for loss in trace.losses] == [losses] * bool(losses)
    assert diagnose(trace).sentences[0].startswith(first)


def test_many_lives_need_few_files_threads_and_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """70 of them, with a limit on open files that is 100 above what the second one has."""
    monkeypatch.setenv("SITUATION", "many_lives")
    run = recorded(*situation())
    for rank in range(2):
        seen = f"rank {rank}: few files True, more threads False, little memory True\n"
        assert seen in run.printed
    assert sum(rank.calls for rank in run.end.report.ranks) == run.counted == 70
    assert any("started RPC 70 times" in loss for loss in run.trace.losses)


def test_no_object_text_or_traceback_of_ours_is_seen(capfd: pytest.CaptureFixture[str]) -> None:
    """Every way to call, and every way in which a call can fail."""
    run = run_both(lambda: python("failures.py", free_port()), capfd)
    assert len(run.trace.calls) == run.counted


@pytest.mark.parametrize(
    ("which", "ran"),
    [("calling", {"chain": 12}), ("nested", {"post": 12}), ("showing", {"shows": 1}),
     ("collecting", {"<lambda>": 2}), ("serving", {"post": 6}), ("late", {"<lambda>": 1})],
)  # fmt: skip
def test_callbacks_of_futures(
    which: str, ran: dict[str, int], capfd: pytest.CaptureFixture[str]
) -> None:
    run = run_both(lambda: python("callbacks.py", free_port(), which, "16"), capfd)
    trace, callbacks = run.trace, run.trace.callbacks
    assert len(trace.calls) == run.counted
    assert trace.losses == ()
    names = callbacks["function"].astype(str).str.rpartition(".")[2]
    assert names.value_counts().to_dict() == ran
    assert callbacks["holds_thread"].all()
    assert (callbacks["end_ns"] > callbacks["start_ns"]).all()
    # Each knows the call that it belongs to, and runs where that was made.
    calls = trace.calls.set_index("call_id").loc[callbacks["call_id"]]
    assert calls["client_rank"].tolist() == callbacks["rank"].tolist()
    assert set(callbacks["thread"]).isdisjoint(rank.pid for rank in trace.ranks)
    if which != "late":
        assert (callbacks["start_ns"].array >= calls["end_ns"].array).all()
