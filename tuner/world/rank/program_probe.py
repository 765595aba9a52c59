"""Answers, in a rank of a program, what it is doing: whenever the launcher asks.

A thread looks for a file in the folder of reports. It starts before the rendezvous, in which a rank
may wait for another one for ever, and lasts as long as the process, which may start RPC again.
"""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tuner.daemon_threads import start_daemon
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
            self._tell(
                "state",
                number=int(number),
                name=self._name,
                rank=self._rank,
                monotonic_s=time.monotonic(),
                **rpc_state(),
                **self._standing(),
            )

    def _asked(self) -> str | None:
        try:
            return self._request.read_text()
        except OSError:
            return None
