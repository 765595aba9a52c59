"""Programs that nobody edited, recorded: the trace holds every call that the program counted."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import psutil
import pytest

from testing.programs import PROGRAMS, free_port
from tests.world.command.recorded import python, recorded
from tests.world.command.reported import BEGAN_NS, PIDS, until
from tuner.present.analysis import Analysis
from tuner.trace.record import merge
from tuner.world.command import recording
from tuner.world.command.order import RecordingOrder
from tuner.world.command.program_channel import ProgramChannel

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def shell_of_ranks(*flags: str) -> list[str]:
    """A process per shell; each gets flags for Python."""
    program, port = PROGRAMS / "by_rank.py", free_port()
    ranks = (
        f"{sys.executable} -W ignore {flag} {program} --rank {rank} --master-port {port}"
        for rank, flag in enumerate(flags)
    )
    return ["sh", "-c", f"{' & '.join(ranks)} & wait"]


def test_operators_are_recorded_where_they_are_asked_for() -> None:
    """Builtin operators run without Python: their operators tell how they were served."""
    run = recorded(*shell_of_ranks("", ""), order=RecordingOrder(operators=True))
    trace = run.trace
    assert len(trace.calls) == run.counted == 20
    assert set(trace.calls["link"]) == {"inferred"}
    assert trace.operators_recorded
    adding = trace.operators[trace.operators["name"] == "aten::add"]
    assert set(adding["call_id"].dropna()) == set(trace.calls["call_id"])
    assert trace.losses == ()


def test_a_rank_that_the_hook_did_not_reach_gets_what_it_can_read() -> None:
    trace = (run := recorded(*shell_of_ranks("-E", ""))).trace
    assert [rank.name for rank in trace.ranks] == ["trainer1"]
    assert len(trace.calls) == run.counted == 20
    assert (set(trace.calls["status"]), set(trace.calls["link"])) == ({"ok"}, {""})
    lost = "ps recorded nothing: 20 calls to it have no server's side"
    assert trace.losses == (lost, "rank 0 recorded nothing")


def test_the_calls_of_a_window_are_those_that_the_program_made_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ranks call each other, and calls are under way when either of their windows ends."""
    monkeypatch.setenv("SITUATION", "both_ways")
    order = RecordingOrder(start_after_s=0.3, for_s=0.5)
    run = recorded(*python("situations.py", free_port()), order=order)
    assert run.trace.losses == ()
    for rank, name in enumerate(("client", "server1")):
        (told,) = re.findall(rf"^{rank} made: (\[.*\])", run.printed, re.MULTILINE)
        made_ns = np.array(json.loads(told))
        calls = run.trace.calls[run.trace.calls["client"] == name]
        start_ns = np.sort(calls["start_ns"].to_numpy()) + run.trace.base_time_ns
        number = np.searchsorted(made_ns, start_ns) - 1
        # None is missing in between, and none is there twice.
        assert number.tolist() == [*range(number[0], number[0] + len(calls))]
        assert 0 < number[0] < number[-1] < len(made_ns) - 1
        assert (set(calls["status"]), set(calls["link"])) == ({"ok"}, {"exact"})


def test_what_the_driver_used_in_a_window_is_of_that_window() -> None:
    order = RecordingOrder(start_after_s=0.1, for_s=0.2)
    run = recorded(*python("learner_computes.py", "1", free_port()), order=order)
    (learner,) = [rank for rank in run.trace.ranks if rank.name == "learner"]
    assert 0 < (learner.main_cpu_s or 0) < 0.8


IGNORES_INTERRUPTS = """
import signal, subprocess, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
time.sleep(600)
"""


def test_a_second_interrupt_ends_all_that_the_program_has_started() -> None:
    """It ignores the first one, and so does a child of it in a session of its own."""
    command = [sys.executable, "-m", "tuner.record", "--", sys.executable, "-c", IGNORES_INTERRUPTS]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        os.kill(process.pid, signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        os.kill(process.pid, signal.SIGINT)
        process.wait(timeout=60)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("every_s", [1.0, 60.0, 86_400.0])
def test_in_a_day_the_ranks_are_asked_some_thousands_of_times(every_s: float) -> None:
    """However often something fails: all answers are gone through with each look."""
    now_s, asked = 0.0, 0
    while now_s < 86_400:
        now_s += max(recording.LOOK_S, recording.asking_pause_s(now_s % every_s, asked))
        asked += 1
    assert 50 < asked < 3000


@pytest.mark.parametrize("signals", [[], [signal.SIGINT]])
def test_of_a_program_that_is_interrupted_no_rank_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: list[int]
) -> None:
    """Ranks that end for Ctrl-C may raise, and a program may take a while to clean up."""
    raised = {"kind": "exit", "pid": PIDS[1], "time_ns": BEGAN_NS + 10**9, "error": "OSError: no",
              "traceback": ""}  # fmt: skip
    said: list[str] = []
    monkeypatch.setattr(recording, "LOOK_S", 0.0)
    with closing(ProgramChannel(tmp_path)) as channel:
        channel.take([*until(0, "shutdown"), *until(1, "ready"), raised])
        ranks = recording._Ranks(channel, [], said.append, signals)
        ranks.look()
    assert said == ([] if signals else ["observer1 failed first: OSError: no"])
    assert ranks.given_up_ns is None


@pytest.mark.parametrize(("way", "threads"), [("to_here", 4), ("rpc_sync", 1), ("wait", 2)])
def test_a_deadlock_is_proven_said_and_ended(way: str, threads: int) -> None:
    """Of its four calls as many wait as the stage has threads; the others wait for a thread."""
    run = recorded(*python("deadlocks.py", free_port(), way, str(threads)))
    assert (run.end.exit_code, run.end.is_given_up) == (1, True)
    who = "its only worker thread waits" if threads == 1 else f"all {threads} worker threads wait"
    assert run.told[0].startswith(f"stage1 deadlocked: {who} for the answer to a call")
    assert run.told[1] == "a deadlock does not end, so the program is ended"
    (found,) = Analysis.of(run.trace).deadlocks
    assert (found.process, found.threads) == ("stage1", threads)
    assert threads < found.needs <= 5
    how = {"to_here": "in to_here", "rpc_sync": "in a nested rpc_sync", "wait": "in wait()"}[way]
    assert found.waits == (f"{how} for second on stage2",)
    # None has failed: they were under way when we ended it.
    assert "unfinished" in set(run.trace.calls["status"]) <= {"unfinished", "ok"}


def test_with_as_many_threads_as_a_deadlock_needs_the_program_ends_well() -> None:
    run = recorded(*python("deadlocks.py", free_port(), "to_here", "5"))
    assert (run.end.exit_code, run.end.is_given_up, run.told) == (0, False, [])
    assert len(run.trace.calls) == run.counted == 120


def test_of_very_many_operators_the_first_are_kept_and_the_program_is_none_the_slower() -> None:
    run = recorded(
        *python("many_operators.py", free_port(), "20000"), order=RecordingOrder(operators=True)
    )
    trace, until_ns = run.trace, run.trace.operators_until_ns
    assert run.end.exit_code == 0
    assert len(trace.calls) == run.counted == 10
    assert until_ns is not None
    assert 20_000 < len(trace.operators) <= merge.MOST_OPERATORS
    assert trace.operators["start_ns"].max() < until_ns < trace.window_ns[1]
    assert "operators are in the trace, those of" in trace.losses[0]
    assert "left out" in trace.losses[0]
    # What the ranks hand over is no part of the recording's time.
    ((ended_ns, cpu_s),) = re.findall(r"ended: (\d+) after (.*) s", run.printed)
    assert trace.window_ns[1] + trace.base_time_ns - int(ended_ns) < 1e9
    used_s = next(rank.cpu_s for rank in trace.ranks if rank.name == "driver")
    assert used_s is not None
    assert used_s <= float(cpu_s) + 0.5


def test_the_line_at_which_a_driver_sleeps_is_named_first() -> None:
    """Both processes end without a word: what was sampled until then is kept."""
    place = PROGRAMS / "cases/never_shuts_down.py"
    program = f"{sys.executable} -W ignore {place}"
    trace = recorded("sh", "-c", f"{program} 1 & {program} 0; wait").trace
    analysis = Analysis.of(trace, finds_changes=True)
    assert "The caller is the limit: driver sleeps for " in analysis.diagnosis.text
    first = analysis.changes[0].to_json()
    line = place.read_text().splitlines().index("    time.sleep(1)") + 1
    assert (first["change"], first["function"]) == ("no-sleep", "driver")
    assert first["site"].endswith(f"never_shuts_down.py:{line}")
    whole_s = (trace.window_ns[1] - trace.window_ns[0]) / 1e9
    assert first["ratio"] == pytest.approx(1 - 1 / whole_s, rel=0.1)


def test_others_on_the_cpus_are_said_and_the_programs_own_ranks_are_none() -> None:
    hog = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as scope:
        for _ in range(os.cpu_count() or 1):
            scope.callback((process := subprocess.Popen(hog)).wait)
            scope.callback(process.kill)
        busy = recorded(*python("deadlocks.py", free_port(), "rpc_sync", "8")).trace
    assert busy.is_of_busy_machine
