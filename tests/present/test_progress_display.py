import re
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from testing.specs import for_all, threads
from tests.present.screen import Screen
from tuner.decide.statistics import Interval
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present import progress_display
from tuner.present.progress_display import (
    LiveProgress,
    PlainProgress,
    progress_of_command,
    shown_in_notebook,
    snapshot_line,
)
from tuner.searching.progress_reports import (
    Compared,
    GroupState,
    Silent,
    Snapshot,
    Stage,
    report_stage,
)

RACING = Snapshot(
    phase="race", block=7, worlds=48, calibrated=6, traced=6, configs=6, survivors=5,
    ahead=(for_all(transports="shm"),), ahead_value=1.8042, unit="ms", remaining_s=9.1,
    budget_s=60.0,
)  # fmt: skip
SEEN = Compared(rival="transports=shm", speedup=Interval(1.12, 0.981, 1.27), is_decided=False)
LOOKED = replace(RACING, looks=3, compared=SEEN)
GROUPS = (
    GroupState(1, 12, 3, 6, is_lost=False),
    *(GroupState(number, None, 0, 0, is_lost=number == 3) for number in (2, 3)),
)
RACE, AHEAD = "racing · block 7 · 5 of 6 configurations left", "transports=shm ahead (1.8 ms)"
LEFT = " · 9.1s left"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"{RACE} · {AHEAD}{LEFT}"),
        ({"ahead": (*map(threads, (4, 1, 2)),)},
         f"{RACE} · num_worker_threads=1, 2, 4 ahead (1.8 ms){LEFT}"),
        ({"ahead": tuple(for_all(transports=each) for each in ("uv", "default"))},
         f"{RACE} · transports=default, uv ahead (1.8 ms){LEFT}"),
        ({"ahead": (*map(threads, range(1, 7)),)}, f"{RACE} · 6 ahead, alike (best 1.8 ms){LEFT}"),
        ({"ahead": ()}, f"{RACE}{LEFT}"),
        # One rival of several is left.
        ({"ahead": (), "survivors": 2},
         f"confirming · block 7 · 2 of 6 configurations left{LEFT}"),
        ({"ahead": (), "survivors": 2, "configs": 2},
         f"racing · block 7 · 2 of 2 configurations left{LEFT}"),
        ({"compared": SEEN, "until_clear": True},
         f"{RACE} · transports=shm: 1.12x (0.98 to 1.27) · at most 9.1s left"),
        ({"compared": replace(SEEN, speedup=Interval(1.12, 0.2, 1.27))},
         f"{RACE} · transports=shm: gain too uncertain to say{LEFT}"),
        ({"compared": replace(SEEN, speedup=Interval(9.0, 2.5, 40.0), is_decided=True)},
         f"{RACE} · transports=shm: at least 2.50x · decided, not yet exact{LEFT}"),
        ({"groups": GROUPS},
         f"{RACE} · {AHEAD} · groups 1: block 12, 3 of 6, 2: idle, 3: lost{LEFT}"),
        ({"groups": GROUPS[1:]}, f"{RACE} · {AHEAD}{LEFT}"),
    ],
)  # fmt: skip
def test_the_line_of_a_race(changes: dict[str, Any], said: str) -> None:
    assert snapshot_line(replace(RACING, **changes)) == said


def test_plain_lines_come_once_per_block_phase_and_look() -> None:
    screen = Screen()
    progress = PlainProgress(screen.console)
    later = replace(LOOKED, block=8)
    exploring = replace(RACING, block=8, phase="exploration")
    for each in (RACING, replace(RACING, worlds=49), LOOKED, LOOKED, later, replace(later, looks=4),
                 exploring, replace(exploring, block=9, configs=1)):  # fmt: skip
        progress.on_snapshot(each)
    told = [(" · ".join(line.split(" · ")[:2]), "1.12x" in line) for line in screen.lines]
    assert told == [
        ("racing · block 7", False), ("racing · block 7", True), ("racing · block 8", False),
        ("racing · block 8", True), ("exploring · 6 configurations tried", False),
        ("exploring · 1 configuration tried", False),
    ]  # fmt: skip


def test_the_live_line_shows_the_last_snapshot_and_events_stay() -> None:
    before, screen = threading.active_count(), Screen(terminal=True)
    with LiveProgress(screen.console) as progress:
        assert "starting" in screen.text
        progress.on_event("num_worker_threads=32: [red] crashed")
        progress.on_snapshot(RACING)
        assert snapshot_line(RACING) in screen.text
        # Nothing runs beside a measurement.
        assert threading.active_count() == before
    assert "num_worker_threads=32: [red] crashed" in screen.text


@pytest.mark.parametrize("width", [24, 40, 60, 80, 100])
@pytest.mark.parametrize("has_looked", [False, True])
def test_the_live_line_fits_the_terminal_and_keeps_the_time_left(
    width: int, has_looked: bool
) -> None:
    observer = {"num_worker_threads": 4, "transports": ["shm", "uv"]}
    config = Config.from_json({"agent": {"num_worker_threads": 16}, "observer": observer})
    snapshot = replace(RACING, ahead=(config,))
    if has_looked:
        snapshot = replace(snapshot, compared=replace(SEEN, rival=str(config)))
    line = snapshot_line(snapshot, width)
    assert len(line) <= width
    assert line.startswith("racing · ")
    assert line.endswith(" · 9.1s left")
    if width >= 80:
        assert "block 7" in line
        assert re.search("· agent?.*…[^·]*shm[+]uv", line), line
        assert ("1.12x (0.98 to 1.27)" in line) == has_looked
    screen = Screen(terminal=True, width=width)
    with LiveProgress(screen.console) as progress:
        progress.on_snapshot(snapshot)
        drawn = re.split(r"\x1b\[2K", screen.text)[1].split("\x1b")[0]
        assert len(drawn) <= width
        assert drawn.endswith(" · 9.1s left")
        assert ("85 % racing" in drawn, "█" in drawn) == (width >= 40, width >= 80)


@pytest.mark.parametrize("terminal", [True, False])
def test_setting_up_and_drawing_are_named(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=terminal)
    monkeypatch.setattr(progress_display, "Terminal", lambda **how: screen.console)
    with progress_of_command(quiet=False, log=None) as shown:
        report_stage(shown, Stage("setting up: a short trace", 45.0, 60.0))
        report_stage(shown, Stage("drawing"))
    assert ("\x1b[?25l" in screen.text) == terminal
    assert "setting up: a short trace · 45s left" in screen.text
    assert ("██░░░░░░░░ 25 % setting up" in screen.text) == terminal
    assert ("░ 0 % starting" in screen.text) == terminal
    assert "drawing" in screen.text


def in_ipython(monkeypatch: pytest.MonkeyPatch, shell: str) -> Mock:
    """The function of IPython that shows something in a cell; its result changes what is shown."""
    display, running = Mock(), type(shell, (), {})()
    fake: Any = SimpleNamespace(
        get_ipython=lambda: running, display=SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", fake)
    return display


def shown_by(display: Mock) -> list[str]:
    """What stood in the cell, in the course of time."""
    assert all(call.kwargs["raw"] for call in display.mock_calls)
    return [call.args[0]["text/plain"] for call in display.mock_calls]


def test_a_notebook_shows_a_line_and_the_last_events(monkeypatch: pytest.MonkeyPatch) -> None:
    display = in_ipython(monkeypatch, "ZMQInteractiveShell")
    with shown_in_notebook() as progress:
        report_stage(progress, Stage("setting up"))
        for number in range(7):
            progress.on_event(f"event {number}")
        progress.on_snapshot(RACING)
        last = shown_by(display)[-1].splitlines()
        assert last == [
            f"████████░░ 85 % {snapshot_line(RACING)}",
            *(f"  event {number}" for number in range(2, 7)),
        ]
    assert shown_by(display)[1] == "setting up"
    assert shown_by(display)[-1] == ""


def test_elsewhere_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    display = in_ipython(monkeypatch, "TerminalInteractiveShell")
    with shown_in_notebook() as progress:
        assert isinstance(progress, Silent)
    assert display.mock_calls == []
    monkeypatch.delitem(sys.modules, "IPython")
    with shown_in_notebook() as progress:
        assert isinstance(progress, Silent)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_gets_dated_lines_also_of_a_quiet_search(
    quiet: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "search.log"
    log.write_text("before\n")
    with progress_of_command(quiet=quiet, log=log) as progress:
        report_stage(progress, Stage("setting up"))
        progress.on_event("num_worker_threads=1: deadlocked")
        progress.on_snapshot(RACING)
    first, *lines = log.read_text().splitlines()
    assert first == "before"
    told = ["setting up", "num_worker_threads=1: deadlocked", snapshot_line(RACING)]
    assert [line.partition("  ")[2] for line in lines] == told
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", line) for line in lines)
    assert (capsys.readouterr().err == "") == quiet


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write --log .*: Is a directory"):
        progress_of_command(quiet=True, log=tmp_path).__enter__()
