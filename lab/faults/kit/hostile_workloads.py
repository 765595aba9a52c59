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
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed.rpc as rpc

from workloads import Rank, Workload, World

LONG_S = 1200.0


def _line() -> int:
    """The descriptor of the rank's line to the launcher."""
    lines: list[Any] = [
        each for each in gc.get_objects() if type(each).__name__ == "LauncherChannel"
    ]
    return int(lines[0]._connection.fileno())


class Hostile(Workload):
    """A good one."""

    def ranks(self) -> Sequence[Rank]:
        return [Rank("worker0", "caller"), Rank("worker1", "server")]

    def step(self, world: World) -> None:
        rpc.rpc_sync("worker1", torch.add, args=(torch.ones(1), 1))
        if not hasattr(self, "done"):
            self.done = True
            self.attack()

    def attack(self) -> None:
        """What it does, once."""


class ChangesFolder(Hostile):
    def attack(self) -> None:
        os.chdir("/")


class PatchesClock(Hostile):
    def attack(self) -> None:
        for name in ("time", "time_ns", "monotonic", "perf_counter", "perf_counter_ns", "sleep"):
            setattr(time, name, lambda *given: 0)


class ClosesDescriptors(Hostile):
    def attack(self) -> None:
        os.closerange(3, 4096)


class ReusesDescriptors(Hostile):
    """Its own file gets the number of the line."""

    def attack(self) -> None:
        number = _line()
        file = os.open("/dev/null", os.O_WRONLY)
        os.dup2(file, number)


class ClosesStandardStreams(Hostile):
    def attack(self) -> None:
        os.closerange(0, 3)


class LeavesDaemons(Hostile):
    def attack(self) -> None:
        for _ in range(5):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(LONG_S)
                os._exit(0)


class LeavesSessions(Hostile):
    def attack(self) -> None:
        for _ in range(2):
            code = f"import time; time.sleep({LONG_S})"
            subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True, env={})


class LeavesThreads(Hostile):
    def attack(self) -> None:
        for _ in range(50):
            threading.Thread(target=time.sleep, args=(LONG_S,)).start()


class StopsItself(Hostile):
    def attack(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)


class StopsWhileSending(Hostile):
    def attack(self) -> None:
        os.write(_line(), b"\0\0\1\0half of a message")
        os.kill(os.getpid(), signal.SIGSTOP)


class SendsGarbage(Hostile):
    def attack(self) -> None:
        os.write(_line(), b"\xff" * 100)


class SendsWhatIsNoMessage(Hostile):
    def attack(self) -> None:
        for content in (b"[]", b'"x"', b'{"kind": "unknown"}', b"{}"):
            os.write(_line(), len(content).to_bytes(4, "big") + content)


class PrintsMuch(Hostile):
    def attack(self) -> None:
        for _ in range(100):
            os.write(2, b"x" * 1_000_000)
        raise ValueError("after 100 MB of stderr")


class PrintsForever(Hostile):
    def attack(self) -> None:
        while True:
            os.write(1, b"x" * 100_000)
            time.sleep(0.002)


class RaisesLongMessage(Hostile):
    def attack(self) -> None:
        raise ValueError("x" * 50_000_000)


class RaisesWhatCannotBeShown(Hostile):
    def attack(self) -> None:
        class Unspeakable(Exception):  # noqa: N818
            def __str__(self) -> NoReturn:
                raise RuntimeError("no")

        raise Unspeakable


class RaisesControls(Hostile):
    def attack(self) -> None:
        raise ValueError("\x1b[2J\x00\ud800")


class DoesNothing(Hostile):
    def step(self, world: World) -> None:
        pass


class ExitsAtOnce(Hostile):
    def attack(self) -> None:
        os._exit(0)


class RaisesSystemExit(Hostile):
    def attack(self) -> None:
        sys.exit(0)


class RaisesKeyboardInterrupt(Hostile):
    def attack(self) -> None:
        raise KeyboardInterrupt


class KillsItself(Hostile):
    def attack(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class KillsItsGroup(Hostile):
    def attack(self) -> None:
        os.killpg(0, signal.SIGKILL)


class KillsItsPeer(Hostile):
    def attack(self) -> None:
        peer = rpc.rpc_sync("worker1", os.getpid)
        os.kill(peer, signal.SIGKILL)
        time.sleep(LONG_S)


class KillsForkserver(Hostile):
    def attack(self) -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(LONG_S)


class StopsForkserver(Hostile):
    def attack(self) -> None:
        os.kill(os.getppid(), signal.SIGSTOP)


class Segfaults(Hostile):
    def attack(self) -> None:
        ctypes.string_at(0)


class Recurses(Hostile):
    def attack(self) -> None:
        self.attack()


class UsesUpDescriptors(Hostile):
    def attack(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        self.files = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]


class ClearsEnvironment(Hostile):
    def attack(self) -> None:
        os.environ.clear()


class RemovesTemporaryFiles(Hostile):
    """The world's own folder, in which its output is captured."""

    def attack(self) -> None:
        shutil.rmtree(Path(f"/proc/{os.getpid()}/fd/1").resolve().parent, ignore_errors=True)


class SetsAnAlarm(Hostile):
    def attack(self) -> None:
        signal.alarm(1)
        time.sleep(LONG_S)


class HangsInSetup(Hostile):
    def setup(self, world: World) -> None:
        time.sleep(LONG_S)


class HangsInTeardown(Hostile):
    def teardown(self, world: World) -> None:
        time.sleep(LONG_S)


class IgnoresSignals(Hostile):
    def attack(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        time.sleep(LONG_S)
