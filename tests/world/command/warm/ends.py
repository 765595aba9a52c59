"""Ends in the way that $HOW names."""

import atexit
import multiprocessing as mp
import os
import random
import signal
import sys
import threading
import time
from typing import Any


def raises_from() -> None:
    try:
        [][1]
    except IndexError as error:
        raise RuntimeError("because") from error


def end_late() -> None:
    def later() -> None:
        time.sleep(0.05)
        print("from a thread")

    threading.Thread(target=later).start()
    atexit.register(print, "at the end")
    sys.stdout.write("without an end of line")
    # In a cycle: freed when Python itself ends, while `os` is still there.
    Tells().itself = None


class Tells:
    def __init__(self) -> None:
        self.itself: Tells | None = self

    def __del__(self) -> None:
        os.write(2, b"freed\n")


def own_excepthook() -> None:
    sys.excepthook = lambda kind, error, trace: print(kind, error, trace.__class__)
    raise ValueError("for the hook")


def exits_in_a_child() -> None:
    if os.fork() == 0:
        sys.exit(9)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))


def spawns_in_a_forked_child() -> None:
    if os.fork() == 0:
        process = mp.get_context("spawn").Process(target=print, args=("spawned",))
        process.start()
        process.join()
        os._exit(process.exitcode or 0)
    os.wait()


def is_killed_by_its_child() -> None:
    process = mp.get_context("spawn").Process(target=os.kill, args=(os.getpid(), signal.SIGTERM))
    process.start()
    process.join()
    time.sleep(60)


def starts_itself_again() -> None:
    os.environ["HOW"] = "exits_with_text"
    os.execv(sys.executable, [sys.executable, *sys.argv])


WAYS: dict[str, Any] = {
    "exits_with_text": lambda: sys.exit("a last word"),
    "exits_at_once": lambda: os._exit(4),
    "raises_end_of_file": input,
    "interrupted": lambda: os.kill(os.getpid(), signal.SIGINT),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "raises_in_text": lambda: exec("[][1]"),  # noqa: S102
}  # fmt: skip

if __name__ == "__main__":
    held = Tells()
    how = os.environ["HOW"]
    random.seed(1)
    (WAYS.get(how) or globals()[how])()
