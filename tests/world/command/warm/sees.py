"""Prints what it sees of how it was started, and what its children see: no pid, no time."""

import json
import multiprocessing as mp
import os
import signal
import subprocess
import sys
import threading
import warnings
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

LOADED = [__name__]


def view() -> dict[str, Any]:
    main = sys.modules["__main__"]
    return {
        "argv": sys.argv,
        "orig_argv": [arg for arg in sys.orig_argv if "pipe_handle" not in arg],
        "path": sys.path,
        "flags": list(sys.flags),
        "executable": sys.executable,
        "warnings": [sys.warnoptions, list(map(repr, warnings.filters))],
        "names": [__name__, *LOADED],
        "main": {key: repr(main.__dict__.get(key, "-")).split(" at 0x")[0]
                 for key in ("__name__", "__file__", "__package__", "__doc__", "__cached__")},
        "spec": main.__spec__ and main.__spec__.name,
        "loader": type(main.__loader__).__name__,
        "cwd": str(Path.cwd()),
        "environment": {key: os.environ[key] for key in os.environ if key != "RPC_TUNER_ORDER"},
        "c_environment": subprocess.check_output("echo $SEEN_BY_C", shell=True, text=True),
        "stdin": os.read(0, 1).decode(),
        "buffered": [sys.stdout.line_buffering, sys.stdout.encoding, sys.stderr.errors],
        "first_descriptor": os.dup(0),
        "umask": os.umask(0o22),
        "ignored": [n for n in range(1, 65) if signal.getsignal(n) is signal.SIG_IGN],
        "sigint": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "threads": [thread.name for thread in threading.enumerate()],
        "start_method": mp.get_start_method(),
        "process": mp.current_process().name,
    }  # fmt: skip


def child(queue: Any, lock: Any, event: Any, parent: int, block: str) -> None:
    with lock:
        here = {
            "child_of_parent": os.getppid() == parent,
            "group": os.getpgid(0) == os.getpgid(parent),
        }
        shared: Any = shared_memory.SharedMemory(name=block)
        shared.buf[1] = 7
        shared.close()
        queue.put({**view(), **here, "is_daemon": mp.current_process().daemon})
    event.wait()
    print("the child prints", flush=True)
    sys.exit(5)


def fails() -> None:
    raise ValueError("in a child")


def waits() -> None:
    signal.pause()


def with_children(context: Any) -> dict[str, Any]:
    queue, lock, event = context.Queue(), context.Lock(), context.Event()
    block: Any = shared_memory.SharedMemory(create=True, size=8)
    os.environ["SEEN_BY_C"] = "changed by the program"
    os.environ["PYTHONWARNINGS"] = "ignore,error::ImportWarning"
    one = context.Process(
        target=child, args=(queue, lock, event, os.getpid(), block.name), name="one", daemon=True
    )
    one.start()
    seen = queue.get()
    alive = one.is_alive()
    event.set()
    one.join()
    two, three = context.Process(target=fails), context.Process(target=waits)
    two.start()
    three.start()
    two.join()
    three.terminate()
    three.join()
    values = {"alive": alive, "codes": [one.exitcode, two.exitcode, three.exitcode],
              "block": block.buf[1]}  # fmt: skip
    block.close()
    block.unlink()
    with context.Pool(2) as pool:
        values["pool"] = pool.map(abs, [-1, -2, -3])
    return {"child": seen, **values}


def no_children_are_left() -> bool:
    # The resource tracker is one; it ends when its pipe is closed.
    from multiprocessing import resource_tracker

    tracker: Any = resource_tracker._resource_tracker

    os.close(tracker._fd)
    os.waitpid(tracker._pid, 0)
    tracker._fd = tracker._pid = None
    try:
        os.waitpid(-1, 0)
    except ChildProcessError:
        return True
    return False


def show() -> None:
    mine = view()
    print(json.dumps({"mine": mine, **with_children(mp.get_context("spawn")),
                      "nothing_left": no_children_are_left()}, indent=1))  # fmt: skip


if __name__ == "__main__":
    show()
