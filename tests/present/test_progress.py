import threading
from dataclasses import replace

from tests.present.screen import Screen
from tuner.present.progress import LiveProgress, PlainProgress, progress_for, snapshot_line
from tuner.searching.progress import Snapshot

RACING = Snapshot(
    phase="race",
    block=7,
    worlds=48,
    traced=6,
    configs=6,
    survivors=5,
    leader="transports=shm",
    leader_value=1.8042,
    unit="ms",
    remaining_s=9.1,
)


def test_a_race_says_the_block_the_survivors_and_the_leader() -> None:
    assert snapshot_line(RACING) == (
        "racing · block 7 · 5 of 6 configurations left · leader transports=shm (1.8 ms) · 9.1s left"
    )


def test_calibrating_counts_the_configs_that_were_tried() -> None:
    snapshot = replace(
        RACING,
        phase="calibration",
        block=0,
        worlds=2,
        leader=None,
        leader_value=None,
        remaining_s=58,
    )
    assert snapshot_line(snapshot) == "calibrating · 2 of 6 configurations · 58s left"


def test_racing_says_so() -> None:
    line = snapshot_line(replace(RACING, remaining_s=90))
    assert line.startswith("racing · block 7 · ")
    assert line.endswith(" · 1m30s left")


def test_a_number_without_a_unit_stands_alone() -> None:
    assert "leader transports=shm (1.8) ·" in snapshot_line(replace(RACING, unit=""))


def test_a_slow_leader_is_a_plain_number() -> None:
    assert "e+" not in snapshot_line(replace(RACING, leader_value=1234.5))


def test_a_terminal_gets_a_live_line_and_a_file_plain_lines() -> None:
    assert isinstance(progress_for(Screen(terminal=True).console), LiveProgress)
    assert isinstance(progress_for(Screen(terminal=False).console), PlainProgress)


def test_plain_lines_come_once_per_block_and_phase() -> None:
    screen = Screen()
    with PlainProgress(screen.console) as progress:
        progress.on_snapshot(RACING)
        progress.on_snapshot(replace(RACING, worlds=49))
        progress.on_snapshot(replace(RACING, block=8))
        progress.on_snapshot(replace(RACING, block=8, phase="exploration"))
    assert [line.split(" · ")[:2] for line in screen.lines] == [
        ["racing", "block 7"],
        ["racing", "block 8"],
        ["exploring", "6 configurations tried"],
    ]


def test_plain_lines_are_neither_wrapped_nor_read_as_markup() -> None:
    screen = Screen(width=20)
    with PlainProgress(screen.console) as progress:
        progress.on_event("num_worker_threads=32: [red] crashed: server failed first")
        progress.on_snapshot(RACING)
    assert screen.lines == [
        "num_worker_threads=32: [red] crashed: server failed first",
        snapshot_line(RACING),
    ]


def test_the_live_line_shows_the_last_snapshot_and_events_stay() -> None:
    screen = Screen(terminal=True)
    with LiveProgress(screen.console) as progress:
        assert "starting" in screen.text
        progress.on_event("num_worker_threads=32: [red] crashed")
        progress.on_snapshot(RACING)
        assert snapshot_line(RACING) in screen.text
    assert "num_worker_threads=32: [red] crashed" in screen.text


def test_the_live_line_is_cut_to_the_terminal() -> None:
    screen = Screen(terminal=True, width=40)
    with LiveProgress(screen.console) as progress:
        progress.on_snapshot(RACING)
        assert "racing · block 7" in screen.text
        assert "…" in screen.text
        assert "9.1s left" not in screen.text


def test_nothing_runs_beside_a_measurement() -> None:
    before = threading.active_count()
    with LiveProgress(Screen(terminal=True).console) as progress:
        progress.on_snapshot(RACING)
        assert threading.active_count() == before
