"""A process tells of the exception that ends it, however it was started, and of no other."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import code, json, multiprocessing, os, signal, sys, threading, time
from tuner.world.rank.own_end import OwnEnd

def tell(event, **facts):
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps([event, os.getpid(), facts]) + "\\n")

OwnEnd(tell).install()

def fail():
    raise ValueError("no data\\nat all")

def handle(then):
    try:
        fail()
    except ValueError:
        then()

def be_asked(number):
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    os.kill(os.getpid(), number)
    time.sleep(60)

WAYS = {
    "raises": fail,
    "exits": lambda: sys.exit("gives up"),
    "exits after an error": lambda: handle(lambda: sys.exit(3)),
    "is done": lambda: handle(lambda: sys.exit(0)),
    "shows an error": lambda: code.InteractiveInterpreter().runcode("1 / 0"),
    "is asked": lambda: be_asked(signal.SIGTERM),
    "is interrupted": lambda: be_asked(signal.SIGINT),
    "has a thread": lambda: (threading.Thread(target=time.sleep, args=(60,)).start(), fail()),
    "ends": lambda: None,
}

def work(how):
    WAYS[how]()

def start(by, how):
    if by == "alone" or (by == "forks" and os.fork() == 0):
        work(how)
    elif by == "forks":
        os.wait()
    else:
        child = multiprocessing.get_context(by).Process(target=work, args=(how,))
        child.start()
        child.join()

if __name__ == "__main__":
    if len(sys.argv) > 4:  # what forks handles an exception
        handle(lambda: start(*sys.argv[2:4]))
    else:
        start(*sys.argv[2:])
"""
FAILED = "ValueError: no data"

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def started(folder: Path, *how: str) -> "subprocess.Popen[bytes]":
    """The program, which tells in a file of the folder how its processes end."""
    program = folder / "main.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(folder / "told"), *how]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def ends_of(folder: Path, *how: str) -> list[Any]:
    started(folder, *how).wait(60)
    return [json.loads(line) for line in (folder / "told").read_text().splitlines()]


@pytest.mark.parametrize("start", ["alone", "forks", "fork", "spawn"])
@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("raises", FAILED),
        ("exits", "sys.exit('gives up')"),
        ("exits after an error", FAILED),
        *((how, "") for how in ("is done", "shows an error", "is asked", "is interrupted", "ends")),
    ],
)
def test_what_ends_a_process_is_told_once(tmp_path: Path, start: str, how: str, error: str) -> None:
    if start in ("alone", "forks") and how.startswith("exits"):
        error = ""  # Python keeps nothing of it, and its parent sees the exit code.
    ends = ends_of(tmp_path, start, how)
    assert [event for event, _, _ in ends] == ["exit"] * (1 if start == "alone" else 2)
    assert len({pid for _, pid, _ in ends}) == len(ends)
    assert [facts["error"] for _, _, facts in ends] == [error, ""][: len(ends)]
    assert ("in fail" in ends[0][2]["traceback"]) == (error == FAILED)


def test_it_is_told_though_threads_of_the_program_go_on(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with started(tmp_path, "alone", "has a thread") as process:
        while not told.exists() or not told.read_text().endswith("\n"):
            assert process.poll() is None
        assert FAILED in told.read_text()
        process.kill()


@pytest.mark.parametrize(
    ("start", "how", "error"),
    [("forks", "ends", ""), ("fork", "ends", ""), ("fork", "exits", "sys.exit('gives up')")],
)
def test_what_a_parent_handles_ends_no_child(
    tmp_path: Path, start: str, how: str, error: str
) -> None:
    ends = ends_of(tmp_path, start, how, "handling")
    assert [facts["error"] for _, _, facts in ends] == [error, ""]
