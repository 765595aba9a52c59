"""Workloads that do what none should: in a step of rank 0, unless they say otherwise."""

import ctypes
import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch.distributed.rpc as rpc

from testing.troubles import Pair, leave_daemons
from tuner.world.socket_channel import SocketChannel
from workloads import World

LONG_S = 1200.0
MEASURED, CRASHED, TIMED_OUT = "measured", "crashed", "timed-out"


class Hostile(Pair):
    """Makes a call, and one attack."""

    attack: str = "nothing"

    def setup(self, world: World) -> None:
        if self.attack == "setup never ends":
            time.sleep(LONG_S)

    def step(self, world: World) -> None:
        if self.attack == "a step does nothing, in nanoseconds":
            return
        super().step(world)
        if not hasattr(self, "done"):
            self.done = True
            ATTACKS[self.attack][0]()

    def teardown(self, world: World) -> None:
        if self.attack == "teardown never ends":
            time.sleep(LONG_S)


def _line() -> int:
    """The descriptor of the rank's line to the launcher."""
    lines = [each for each in gc.get_objects() if isinstance(each, SocketChannel)]
    return int(lines[0].connection.fileno())


def _signal(number: signal.Signals, pid: Callable[[], int] = os.getpid) -> Callable[[], None]:
    return lambda: os.kill(pid(), number)


def _nothing() -> None: ...


def _and_wait(action: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        action()
        time.sleep(LONG_S)

    return act


def _raise(error: BaseException) -> NoReturn:
    raise error


def _patch_clock() -> None:
    for name in ("time", "time_ns", "monotonic", "perf_counter", "perf_counter_ns", "sleep"):
        setattr(time, name, lambda *given: 0)


def _leave_sessions() -> None:
    for _ in range(2):
        code = f"import time; time.sleep({LONG_S})"
        subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True, env={})


def _stop_while_sending() -> None:
    os.write(_line(), b'{"kind": "fini')
    os.kill(os.getpid(), signal.SIGSTOP)


def _send_no_message() -> None:
    for content in (b"[]", b'"x"', b'{"kind": "unknown"}', b"{}"):
        os.write(_line(), content + b"\n")


def _print_much() -> None:
    for _ in range(100):
        os.write(2, b"x" * 1_000_000)
    raise ValueError("after 100 MB of stderr")


def _print_forever() -> None:
    while True:
        os.write(1, b"x" * 100_000)
        time.sleep(0.002)


class _Unspeakable(Exception):  # noqa: N818
    def __str__(self) -> NoReturn:
        raise RuntimeError("no")


def _recurse() -> None:
    _recurse()


def _use_up_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    for _ in range(300):
        os.open("/dev/null", os.O_RDONLY)


def _remove_temporary_files() -> None:
    """The world's own folder, in which its output is captured."""
    shutil.rmtree(Path(f"/proc/{os.getpid()}/fd/1").resolve().parent, ignore_errors=True)


def _ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(LONG_S)


ATTACKS: dict[str, tuple[Callable[[], object], str, bool]] = {
    "nothing": (_nothing, MEASURED, False),
    "a step changes the working folder": (lambda: os.chdir("/"), MEASURED, True),
    "a step replaces the clocks of the module time": (_patch_clock, MEASURED, True),
    "a step closes all descriptors": (lambda: os.closerange(3, 4096), CRASHED, True),
    "a step puts a file in the place of the line":
        (lambda: os.dup2(os.open("/dev/null", os.O_WRONLY), _line()), CRASHED, True),
    "a step closes stdin, stdout and stderr": (lambda: os.closerange(0, 3), MEASURED, False),
    "a step leaves five daemons": (lambda: leave_daemons(5), MEASURED, True),
    "a step leaves processes in sessions, without environment": (_leave_sessions, MEASURED, True),
    "a step leaves a thread that never ends":
        (lambda: threading.Thread(target=time.sleep, args=(LONG_S,)).start(), MEASURED, False),
    "a rank stops itself": (_signal(signal.SIGSTOP), TIMED_OUT, False),
    "a rank stops itself in the middle of sending": (_stop_while_sending, TIMED_OUT, True),
    "a rank sends garbage to the launcher":
        (lambda: os.write(_line(), b"\xff" * 100), TIMED_OUT, False),
    "a rank sends JSON that is no message": (_send_no_message, MEASURED, True),
    "a step prints 100 MB to stderr and raises": (_print_much, CRASHED, True),
    "a step prints without end": (_print_forever, TIMED_OUT, False),
    "a step raises an error with a text of 50 MB":
        (lambda: _raise(ValueError("x" * 50_000_000)), CRASHED, True),
    "a step raises an error that has no text": (lambda: _raise(_Unspeakable()), CRASHED, True),
    "a step raises an error of control characters":
        (lambda: _raise(ValueError("\x1b[2J\x00\ud800")), CRASHED, False),
    "a step does nothing, in nanoseconds": (_nothing, MEASURED, True),
    "a step ends the process with exit code 0": (lambda: os._exit(0), CRASHED, False),
    "a step raises SystemExit": (lambda: sys.exit(0), CRASHED, False),
    "a step raises KeyboardInterrupt": (lambda: _raise(KeyboardInterrupt()), CRASHED, False),
    "a rank kills itself": (_signal(signal.SIGKILL), CRASHED, False),
    "a rank kills its process group": (lambda: os.killpg(0, signal.SIGKILL), CRASHED, False),
    "a rank kills its peer":
        (_and_wait(_signal(signal.SIGKILL, lambda: rpc.rpc_sync("worker1", os.getpid))),
         CRASHED, False),
    "a rank kills the forkserver": (_and_wait(_signal(signal.SIGKILL, os.getppid)), CRASHED, True),
    "a rank stops the forkserver": (_signal(signal.SIGSTOP, os.getppid), MEASURED, False),
    "a step accesses memory that is not there": (lambda: ctypes.string_at(0), CRASHED, False),
    "a step recurses without end": (_recurse, CRASHED, False),
    "a step uses up its descriptors": (_use_up_descriptors, CRASHED, False),
    "a step clears the environment": (os.environ.clear, MEASURED, False),
    "a step removes the temporary files of its world": (_remove_temporary_files, TIMED_OUT, False),
    "a signal that nobody handles ends a rank":
        (_and_wait(lambda: signal.alarm(1)), CRASHED, False),
    "setup never ends": (_nothing, TIMED_OUT, False),
    "teardown never ends": (_nothing, TIMED_OUT, False),
    "a step ignores signals and never ends": (_ignore_signals, TIMED_OUT, False),
}  # fmt: skip
"""By what is done: how, what is expected, and whether `make test-all` does it, too."""
