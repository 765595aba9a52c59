"""Answers, in a rank of a program, what it is doing: whenever the launcher asks.

A thread looks for a file in the folder of reports. It starts before the rendezvous, in which a rank
may wait for another one without end, and lasts as long as the process, which may start RPC again.
"""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tuner.daemon_threads import running_daemons, start_daemon
from tuner.world.rank.thread_states import may_go_on, rpc_state

_POLL_S = 0.1


class Prober:
    """Answers for one process: `tuner.torch_private.programs.Prober`."""

    def __init__(
        self,
        request: Path,
        standing: Callable[[], Mapping[str, object]],
        report: Callable[..., None],
    ) -> None:
        """`standing` gives what goes with each answer."""
        self._request = request
        self._standing = standing
        self._report = report
        self._thread: threading.Thread | None = None

    def begin(self, name: str, rank: int) -> None:
        """Answer under this name from now on."""
        self._name, self._rank = name, rank
        # A fork of the process has no such thread any more.
        if self._thread is None or not self._thread.is_alive():
            self._thread = start_daemon(self._answer, "rpc-tuner probe")

    def _answer(self, is_over: threading.Event) -> None:
        answered = self._asked()
        while not is_over.wait(_POLL_S):
            asked = self._asked()
            if not asked or asked == answered:
                continue
            answered = asked
            number, _, what = asked.partition(" ")
            if what == "stacks":
                path = self._request.with_name(f"{self._name}-{os.getpid()}.stacks")
                with path.open("w") as file:
                    faulthandler.dump_traceback(file)
            self._report(
                "state",
                number=int(number),
                name=self._name,
                rank=self._rank,
                monotonic_s=time.monotonic(),
                **(_of_program() if what == "threads" else _NOT_ASKED),
                **rpc_state(),
                **self._standing(),
            )

    def _asked(self) -> str:
        with suppress(OSError):
            return self._request.read_text()
        return ""


_NOT_ASKED: Mapping[str, object] = {"busy_s": None, "sleeps": False, "daemon_sleeps": False}


def _of_program() -> Mapping[str, object]:
    """What the program's own threads do, without ours.

    Returns:
        Their CPU seconds so far as `busy_s`, None where the kernel does not say it; `sleeps`,
        whether one of them may go on without any other thread or rank; `daemon_sleeps`, whether a
        daemon thread may.
    """
    # A thread of the agent, which serves, is a dummy to Python, and no daemon of the program.
    daemons = {
        each.ident
        for each in threading.enumerate()
        if each.daemon and not isinstance(each, threading._DummyThread)
    }
    ours = {each.ident for each in running_daemons()}
    awake = {
        ident
        for ident, frame in sys._current_frames().items()
        if ident not in ours and may_go_on(frame)
    }
    return {
        "busy_s": _busy_s(),
        "sleeps": bool(awake - daemons),
        "daemon_sleeps": bool(awake & daemons),
    }


def _busy_s(tasks: Path = Path("/proc/self/task")) -> float | None:
    """Without the threads of the agent that look for messages, some without a break."""
    busy_ns = 0
    ours = {thread.native_id for thread in running_daemons()}
    for task in tasks.iterdir():
        try:
            if int(task.name) in ours or (task / "comm").read_text().startswith("TP_"):
                continue
            busy_ns += int((task / "schedstat").read_text().split()[0])
        except (OSError, IndexError):
            if task.exists():  # else it has ended just now
                return None
    return busy_ns / 1e9
