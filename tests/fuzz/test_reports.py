"""What the processes of a program report and record: judged and joined, or left out."""

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.fuzzing import as_json, fuzz, mangled, mutated, survives
from tests.fuzz.test_traces import analysed
from tests.world.command.reported import (
    NAMES,
    collected,
    events_of,
    journal_of,
    write_journals,
)
from tuner.plan.config import Config
from tuner.plan.program_request import ProgramRequest
from tuner.trace.files.native_reader import trace_of
from tuner.world.command.discovering import TriedRun, check_backend, program_spec
from tuner.world.command.ends import given_up
from tuner.world.command.hook.rpc_tuner_hook import Reports
from tuner.world.command.joining import has_window_ended, is_recorded, join_recorded
from tuner.world.command.judging import Counted, ProgramEnd, outcome_of, records_of
from tuner.world.command.order import CHANNEL
from tuner.world.command.program_channel import ProgramChannel
from tuner.world.command.reports import ProgramReport
from tuner.world.command.running import RunEnd
from tuner.world.command.warm.warm_starting import learn
from tuner.world.measurement import Measurement
from tuner.world.messages import Message, of_program
from tuner.world.postmortem import gauges, starvation

pytestmark = pytest.mark.thorough


REQUEST = ProgramRequest(commands=(("python", "main.py"),))
BOTH = [events_of(rank) for rank in range(len(NAMES))]
CONFIG = Config.from_json({"agent": {"num_worker_threads": 2}})
TOKENS = (b"\n", b"null", b"{}", b"[", b"-1", b"1e300", b'"\\ud800"', b"NaN", b"[" * 10**5)


def ends(report: ProgramReport) -> list[ProgramEnd]:
    """Ways in which a run with these reports can have ended."""
    states, counted = records_of(report), Counted(calls=3, seconds=2.0, cpu_s={0: 1.0, 1: 0.5})
    done = ProgramEnd(run_s=3.0, output="", report=report, states=states, exit_codes=(0,))
    late = replace(done, exit_codes=(None,))
    return [
        done,
        replace(done, exit_codes=(1,)),
        replace(late, is_late=True),
        replace(late, cause=given_up(report, 1 << 62)),
        replace(late, starved=starvation(states)),
        replace(late, counted=counted),
    ]


def judged(processes: Sequence[Sequence[Message]]) -> None:
    """All that a search, a run and a recording make of messages."""
    report = collected(processes)
    told = [
        report.why_no_rank(has_ended_well=True),
        report.why_missing(),
        report.waiting(),
        gauges(records_of(report)),
    ]
    told += [*report.notes("it"), *RunEnd(0, report).unused(CONFIG)]
    told += RunEnd(0, report).notes
    assert max(map(len, told)) < 20_000
    for end in ends(report):
        outcome = outcome_of(end, REQUEST)
        assert type(outcome).model_validate_json(outcome.model_dump_json()) == outcome
        if isinstance(outcome, Measurement):
            assert outcome.wall_s > 0
            survives(partial(check_backend, end))
            run = TriedRun(end, outcome)
            spec = program_spec(REQUEST, [run], own_network=True, starts="")
            assert spec.own_config is not None
    learnt = learn(processes)
    assert all(map(str, learnt.modules))
    is_recorded(processes), has_window_ended(processes)


def looked_at(folder: Path, processes: Sequence[Sequence[Message]] = BOTH) -> None:
    """Judged; and what was recorded, as `record` shows it."""
    judged(processes)
    for ended_ns in (None, 2 * 10**18):
        document = survives(partial(join_recorded, folder, processes, ended_ns=ended_ns))
        trace = None if document is None else survives(partial(trace_of, document, "the trace"))
        if trace is not None:
            analysed(trace)


def test_events(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    write_journals(folder)
    looked_at(folder)

    def check(events: Any) -> None:
        lines = events if isinstance(events, list) else [events]
        found = [message for message in map(of_program, lines) if message is not None]
        looked_at(folder, [each for each in (found, BOTH[1]) if each])

    fuzz(mutated(BOTH), check, 40)


def test_bytes_that_processes_send(tmp_path: Path) -> None:
    seeds = [b"".join(as_json(event) + b"\n" for event in events) for events in BOTH]

    def check(content: bytes) -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        with closing(ProgramChannel(folder)) as channel:
            connection = Reports(f"{folder}/{CHANNEL}").connect()
            connection.sendall(content)
            connection.close()
            judged(channel.messages())

    fuzz(mangled(seeds, TOKENS), check, 20)


@pytest.mark.parametrize(
    "suffix", [".calls", ".served", ".callbacks", ".done", ".arrivals", ".texts", ".operators"]
)
def test_bytes_of_each_file(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    write_journals(folder)
    files = [folder / f"{journal_of(rank)}{suffix}" for rank in range(len(NAMES))]
    seeds = [file.read_bytes() for file in files]

    def check(content: bytes) -> None:
        for file in files:
            file.write_bytes(content)
        looked_at(folder)

    # Most of a journal is empty: the records are at its beginning.
    fuzz(mangled([*seeds, *(seed[:500] for seed in seeds)], TOKENS), check, 8)
