"""Answers, in a rank of a program, what it is doing: whenever the launcher asks.

A thread looks for a file in the folder of reports. It starts before the rendezvous, in which a rank
may wait for another one for ever, and lasts as long as the process, which may start RPC again.
"""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from tuner.daemon_threads import running_daemons, start_daemon
from tuner.world.rank.probe import rpc_state

_POLL_S = 0.1


class Prober:
    """Answers for one process: `tuner.torch_private.programs.Prober`."""

    def __init__(
        self, request: Path, standing: Callable[[], Mapping[str, object]], tell: Callable[..., None]
    ) -> None:
        """`standing` is told with each answer."""
        self._request = request
        self._standing = standing
        self._tell = tell
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
            if asked is None or asked == answered:
                continue
            answered = asked
            number, _, what = asked.partition(" ")
            if what == "stacks":
                path = self._request.with_name(f"{self._name}-{os.getpid()}.stacks")
                with path.open("w") as file:
                    faulthandler.dump_traceback(file)
            busy_s, sleeps = _of_program() if what == "threads" else (None, False)
            self._tell(
                "state",
                number=int(number),
                name=self._name,
                rank=self._rank,
                monotonic_s=time.monotonic(),
                busy_s=busy_s,
                sleeps=sleeps,
                **rpc_state(),
                **self._standing(),
            )

    def _asked(self) -> str | None:
        try:
            return self._request.read_text()
        except OSError:
            return None


def _of_program() -> tuple[float, bool]:
    """CPU seconds of the program's own threads so far, and whether one of them sleeps.

    Left out are ours, and those of the agent that look for messages, some without a break.
    """
    busy_ns, sleeps = 0, False
    ours = {thread.native_id for thread in running_daemons()}
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended just now
            if int(task.name) in ours or (task / "comm").read_text().startswith("TP_"):
                continue
            busy_ns += int((task / "schedstat").read_text().split()[0])
            sleeps = sleeps or "nanosleep" in (task / "wchan").read_text()
    return busy_ns / 1e9, sleeps
