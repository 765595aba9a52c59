"""`make pictures`: runs the README's commands, and replaces their outputs and the pictures.

This needs a quiet machine for about seven minutes, and Chromium for the pictures of pages.
"""

import contextlib
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import termios
import textwrap
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

import tuner
from lab.benchmarks.world_cost import measured_world
from lab.pictures.commands import ROOT, environment, run_all, write_files
from lab.pictures.overview import write_overview
from testing.chromium import launched
from testing.programs import PROGRAMS
from testing.readme import (
    FIRST_SEARCH,
    PROGRAM,
    README,
    SHOWN,
    WIDTH,
    program_ratios,
    shortened,
    with_output,
)
from testing.serving import dashboard
from tuner.plan.config import Config
from tuner.present.figures import write_timeline_figure
from tuner.study.folder import StudyFolder
from tuner.text import plural
from tuner.trace.files.reader import read_trace
from tuner.world.local.local_launcher import LocalLauncher

IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "your-own-program.md"
KNOBS_PAGE = ROOT / "docs" / "what-to-tune-first.md"
KNOB_STUDIES = ("tune-binding", "tune-switch", "tune-threads", "tune-transports")
STUDY = "udf-400"


def main() -> None:
    """Run the README's own commands, then write their outputs and every picture."""
    with tempfile.TemporaryDirectory() as scratch:
        where = Path(scratch)
        write_files(PAGE.read_text(), where)
        _write_program_outputs(where)
        _write_search_output(where)
        folder = StudyFolder(where / "studies" / STUDY)
        shutil.copy(folder.figures / "step_time.png", IMAGES / "step_time.png")
        _draw_timelines(where)
        _draw_knobs(where)
        with sync_playwright() as playwright:
            browser = launched(playwright)
            _photograph(browser, folder)
            browser.close()
        run_all(README.read_text(), where)


def _write_program_outputs(where: Path) -> None:
    """Run what the README and docs/your-own-program.md say of the program of that page."""
    readme, page = README.read_text(), PAGE.read_text()
    for command, name, earlier in PROGRAM.findall(readme):
        now = shortened(name, _printed(command, where))
        readme = readme.replace(earlier, now)
        page = with_output(page, earlier, now)
    README.write_text(readme)
    PAGE.write_text(page)
    write_overview(program_ratios(readme), IMAGES / "overview.png")


def _write_search_output(where: Path) -> None:
    """Run the search of a shipped workload that docs/get-started.md shows."""
    page = FIRST_SEARCH.read_text()
    shown = SHOWN.search(page)
    assert shown, f"{FIRST_SEARCH} has no search with its output"
    output = _printed(shown[1], where)
    FIRST_SEARCH.write_text(page[: shown.start(2)] + output + page[shown.end(2) :])


def _printed(command: str, where: Path) -> str:
    """What the command prints in this folder, on a terminal of the README's width."""
    arguments = shlex.split(command.replace("\\\n", ""))[1:]
    terminal, inside = pty.openpty()
    termios.tcsetwinsize(inside, (50, WIDTH))
    running = subprocess.Popen(
        [sys.executable, "-m", "tuner", *arguments], cwd=where, env=environment(), stdout=inside,
        stderr=None if arguments[0] == "search" else inside,
    )  # fmt: skip
    os.close(inside)
    output = b""
    # Linux ends the reading with an error once the other end is closed.
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 4096):
            output += piece
    os.close(terminal)
    if running.wait() != 0:
        raise SystemExit(f"{command} ended with exit code {running.returncode}")
    # A long line is broken as a terminal does, but between words; a short one keeps its spaces.
    lines = [
        part
        for line in map(str.rstrip, output.decode().splitlines())
        for part in (textwrap.wrap(line, WIDTH) if len(line) > WIDTH else [line])
    ]
    return "\n".join(lines).strip("\n")


def _draw_timelines(where: Path) -> None:
    """The first search's workload on one thread and on eight, which it may not trace."""
    traces = []
    with LocalLauncher() as launcher:
        for threads in (1, 8):
            path = where / f"{threads}.json"
            config = Config.from_json({"*": {"num_worker_threads": threads}})
            options = {"size": 400, "calls": 8}
            measured_world(launcher, "udf", 10, options=options, config=config, trace=path)
            traces.append((plural(threads, "thread"), read_trace(path)))
    write_timeline_figure(traces, IMAGES / "timelines.png")


def _draw_knobs(where: Path) -> None:
    """What each knob of docs/what-to-tune-first.md does: the figures of its searches."""
    page = KNOBS_PAGE.read_text()
    shutil.copy(PROGRAMS / "learner_computes.py", where)
    for name in KNOB_STUDIES:
        found = re.search(rf"\$ (rpc-tuner search [^$]*?--study {name}\b.*?)\n```", page, re.DOTALL)
        assert found, f"{KNOBS_PAGE} has no search of {name}"
        _printed(found[1], where)
        figures = StudyFolder(where / "studies" / name).figures
        shutil.copy(figures / "step_time.png", IMAGES / f"{name}.png")


def _photograph(browser: Browser, folder: StudyFolder) -> None:
    """The first screens of a study's page, and its best trial on the dashboard."""
    for name, width, height in (("report", 1280, 800), ("report-narrow", 390, 844)):
        page = _new_page(browser, width, height)
        page.goto(folder.report.as_uri())
        page.screenshot(path=IMAGES / f"{name}.png")
    best = tuner.load_study(folder.root).best_trial
    with dashboard(str(folder.root)) as address:
        page = _new_page(browser, 1200, 1000)
        page.goto(f"{address}/trials?numbers={best}")
        page.get_by_role("heading", name="num_worker_threads=").wait_for()
        page.wait_for_load_state("networkidle")
        page.screenshot(path=IMAGES / "dashboard.png")


def _new_page(browser: Browser, width: int, height: int) -> Page:
    return browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="light", locale="en-GB"
    )


if __name__ == "__main__":
    main()
