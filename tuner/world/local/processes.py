"""Processes on this machine: started from a forkserver, ended with all that they have started."""

import fcntl
import json
import multiprocessing
import os
import signal
import sys
import termios
import threading
import time
import types
from _thread import start_new_thread
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tuner.errors import LauncherError
from tuner.world.descendants import (
    descendants,
    end_descendants,
    holds,
    kill,
    kill_group,
    kill_what_is_left,
    living_children,
)
from tuner.world.environment import MachineReader, MachineState
from tuner.world.launcher import RankTask
from tuner.world.messages import RankMessage, gone, of_workload_rank
from tuner.world.postmortem import PARENT_GONE, give_up_middle
from tuner.world.rank.entry import RESTORED, restore, start_pinned, start_rank
from tuner.world.socket_channel import SocketChannel

# A process that was killed may take so long to be gone.
RELEASE_S = 5.0
# A forkserver that imports torch takes less, unless somebody has stopped it: another is started.
START_S = 60.0
STACKS_S = 0.5
# How often to look at what ranks print, which may fill the disk.
LOOK_S = 1.0
_POLL_S = 0.02
_REAPED_S = 0.002
CAPTURED = (".stdout", ".stderr", ".stacks")
"""How the names of the files end that a rank leaves in its world's folder."""
# A process that is being started is not known yet.
_starting = threading.Lock()
_known: set[int] = set()
"""The processes that were started, by any thread, and that were not ended."""
# On a host of a cluster a thread polls a rank that another one asks for its stacks.
_reading = threading.Lock()


def start_process(
    cpus: Collection[int] | None, target: Callable[..., None], *arguments: object
) -> ForkServerProcess:
    """A new process that runs `target`, from a forkserver that has torch imported already. It, and
    whatever it starts, is kept to these logical CPUs; None: those of this process. LauncherError if
    there can be none."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tuner.world.rank.preload"])
    if cpus is not None:
        target, arguments = start_pinned, (tuple(cpus), target, *arguments)
    until = time.monotonic() + START_S + RELEASE_S
    while True:
        process = context.Process(target=target, args=arguments, daemon=True)
        try:
            _start(process)
            return process
        except (OSError, EOFError) as error:
            # A forkserver that somebody has killed is there until the kernel has released it.
            is_gone = isinstance(error, EOFError | ConnectionError)
            if not is_gone or time.monotonic() >= until:
                why = str(error) or "no forkserver"
                raise LauncherError(f"cannot start a process: {why}") from error
            time.sleep(_POLL_S)


def _start(process: ForkServerProcess) -> None:
    # A forkserver that somebody has stopped is waited for without end.
    timer = threading.Timer(START_S, _end_forkserver)
    timer.daemon = True
    with _starting, _without_main_module():
        timer.start()
        try:
            # It changes the mask of signals where it has to start.
            resource_tracker.ensure_running()
            with _own_import_path(), _without_ctrl_c():
                forkserver.ensure_running()
            # One that is started by half has nothing to read, and prints a traceback.
            _uninterrupted(process.start)
        finally:
            timer.cancel()
        # The next start, of any thread, would look whether this one has ended, and two that look
        # at once read one exit code: the slower finds none, and says 255.
        multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
        _known.add(process.pid or 0)


def _uninterrupted(action: Callable[[], None]) -> None:
    """Run it to its end, also if Ctrl-C comes meanwhile: a thread gets no KeyboardInterrupt."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            action()
            future.set_result(None)
        except BaseException as error:
            future.set_exception(error)

    # Thread.start() waits for the thread, and may be interrupted there.
    start_new_thread(run, ())
    try:
        wait_for([future])
    finally:
        wait_for([future])
    future.result()


def exit_code(process: ForkServerProcess, within_s: float = 0.0) -> int | None:
    """The exit code of a process that ends in time, as `subprocess` has it; None: it runs.
    PARENT_GONE if its forkserver ended and so cannot say: multiprocessing calls that 255, which a
    process may end with by itself."""
    popen: Any = process._popen  # type: ignore[attr-defined]
    if popen.returncode is None and not wait([process.sentinel], within_s):
        return None
    with _reading:
        # The forkserver sends the code, and closes its end.
        waiting = fcntl.ioctl(process.sentinel, termios.FIONREAD, bytes(4))
        if popen.returncode is None and not any(waiting):
            popen.returncode = PARENT_GONE
        return process.exitcode


def end_process(process: ForkServerProcess) -> None:
    """Kill a process, and whatever it has started, if anything of it is left; wait for its end."""
    if (pid := process.pid) is None:
        return
    if exit_code(process) is None:
        # Stopped, it starts no more, and is there to take over the orphans of those that end.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        end_descendants(pid)
        # At its very start a process is in no group of its own.
        process.kill()
    kill_group(pid)
    if exit_code(process, RELEASE_S) is None:
        # It is the forkserver that reports it, and it was stopped from outside.
        _end_forkserver()
        exit_code(process, RELEASE_S)
    _known.discard(pid)


def _end_forkserver() -> None:
    """Kill it; the next start starts another."""
    server: Any = forkserver._forkserver
    if (pid := server._forkserver_pid) is not None:
        kill([pid])


def _orphans() -> list[int]:
    """The forkserver's children that it was not asked for, with all that they have started."""
    server: Any = forkserver._forkserver
    pid, alive = server._forkserver_pid, server._forkserver_alive_fd
    if pid is None or alive is None:
        return []
    pipe = os.fstat(alive)
    return [
        orphan
        for child in living_children(pid)
        # Who is no orphan, and none of ours, holds the pipe that all users of the server hold.
        if child not in _known and not holds(child, pipe)
        for orphan in (*descendants(child), child)
    ]


@contextmanager
def _without_main_module() -> Iterator[None]:
    """Hide `__main__` from multiprocessing, which would run it again in every new process. A
    person's script that has no `if __name__ == "__main__"` would start a search in each rank."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C for a forkserver that starts now, which would print a traceback of what it
    imports; it is for the command alone. Who is forked from it takes it again (`entry.py`)."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _own_import_path() -> Iterator[None]:
    """Have a forkserver that starts now look for modules where this process does. By itself it
    would look in the current folder first, where `tuner` or `workloads` may be a person's own. Once
    it has imported ours, it restores its environment (`RESTORED`)."""
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    changes = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes, **{RESTORED: json.dumps(before)})
    try:
        yield
    finally:
        restore({**before, RESTORED: None})


@dataclass
class _LiveRank:
    task: RankTask
    process: ForkServerProcess
    channel: SocketChannel
    is_gone: bool = False


class LocalRankProcesses:
    """See `tuner.world.live_world.RankProcesses`; of a world that is spread, the ranks of one host.
    `scratch` is the world's folder, in which they leave what they print, and their stacks."""

    def __init__(self, cpus: Collection[int] | None, scratch: Path, machine: MachineReader) -> None:
        self._cpus = cpus
        self.scratch = scratch
        self._machine = machine.watch()
        self._ranks: list[_LiveRank] = []

    def start(self, tasks: Sequence[RankTask]) -> Sequence[int | None]:
        """See `RankProcesses.start`."""
        for task in tasks:
            channel, theirs = SocketChannel.pair()
            with theirs:
                process = start_process(self._cpus, start_rank, task, theirs)
            self._ranks.append(_LiveRank(task, process, channel))
        return [rank.process.pid for rank in self._ranks]

    def poll(self, timeout_s: float) -> list[RankMessage]:
        """See `RankProcesses.poll`."""
        open_ends = [rank.channel.connection for rank in self._ranks if rank.channel.is_open]
        # A rank's children may hold its end of the channel open, so its death is watched for too.
        sentinels = [rank.process.sentinel for rank in self._ranks if not rank.is_gone]
        ready = wait([*open_ends, *sentinels], min(max(0.0, timeout_s), LOOK_S))
        found = [
            RankMessage(rank.task.rank, message)
            for rank in self._ranks
            for sent in rank.channel.messages()
            if (message := of_workload_rank(sent)) is not None
        ]
        for file in self.captured():
            give_up_middle(file)
        for rank in self._ranks:
            if not rank.is_gone and rank.process.sentinel in ready:
                rank.is_gone = True
                message = gone(rank.process.pid or 0, exit_code(rank.process))
                found.append(RankMessage(rank.task.rank, message))
        return found

    def send(self, rank: int, message: Mapping[str, object]) -> None:
        """See `RankProcesses.send`."""
        for each in self._ranks:
            if each.task.rank == rank:
                with suppress(OSError):
                    each.channel.send(message)

    def join(self, timeout_s: float) -> None:
        """See `RankProcesses.join`."""
        for rank in self._ranks:
            exit_code(rank.process, timeout_s)

    def dump_stacks(self, ranks: Sequence[int]) -> None:
        """See `RankProcesses.dump_stacks`."""
        alive = [e for e in self._ranks if e.task.rank in ranks and exit_code(e.process) is None]
        found = {self.scratch / f"{rank.task.name}.stacks": rank.process for rank in alive}
        # A rank that has no such file has no handler yet, and the signal would end it.
        files = {file: process for file, process in found.items() if file.exists()}
        for process in files.values():
            with suppress(ProcessLookupError):
                os.kill(process.pid or 0, signal.SIGUSR1)
        until = time.monotonic() + STACKS_S
        sizes: list[int] = []
        while files and time.monotonic() < until:
            before, sizes = sizes, [file.stat().st_size for file in files if file.exists()]
            if sizes == before and all(sizes):
                return
            time.sleep(_POLL_S)  # a file that grows sends no event

    def captured(self) -> Sequence[Path]:
        """See `RankProcesses.captured`."""
        try:
            return [file for file in sorted(self.scratch.iterdir()) if file.suffix in CAPTURED]
        except FileNotFoundError:
            return []  # the workload has removed it

    def kill(self) -> None:
        """Kill the ranks themselves; `end` does the rest."""
        for rank in self._ranks:
            rank.process.kill()

    def end(self) -> MachineState:
        """See `RankProcesses.end`; kills whatever they started, too."""
        for rank in self._ranks:
            end_process(rank.process)
            rank.channel.close()
        # What was started by processes that are gone.
        with _starting:
            kill_what_is_left(lambda: _orphans() or None, RELEASE_S, _REAPED_S)
        return self._machine()
