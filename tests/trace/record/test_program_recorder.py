"""The recorder of a program's agent, in this process."""

from pathlib import Path

from tuner.daemon_threads import running_daemons
from tuner.trace.record.journal_reader import read_journal
from tuner.trace.record.program_recorder import ProgramRecorder

Reports = dict[str, dict[str, object]]


def recorder(folder: Path, reports: Reports, **order: object) -> ProgramRecorder:
    order = {"operators": False, "start_after_s": 0.0, "for_s": None, **order}
    return ProgramRecorder(
        "worker0", 0, folder, order, lambda event, **facts: reports.update({event: facts})
    )


def test_the_window_of_an_agent_ends_with_it(tmp_path: Path) -> None:
    reports: Reports = {}
    recording = recorder(tmp_path, reports, start_after_s=60.0)
    recording.start()
    (window,) = [daemon for daemon in running_daemons() if daemon.name == "rpc-tuner window"]
    recording.end("shutdown")
    window.join(20)
    assert not window.is_alive()
    assert [*reports] == ["recording", "hand-over", "record-end"]


def test_one_that_never_served_leaves_an_empty_journal(tmp_path: Path) -> None:
    reports: Reports = {}
    recorder(tmp_path, reports).end("init-failed")
    content = read_journal(tmp_path / str(reports["recording"]["journal"]))
    assert (content.client_spans, content.server_spans, content.arrivals) == ([], [], [])
    assert reports["record-end"]["reason"] == "init-failed"
    assert (tmp_path / "worker0.reads").exists()
