"""Answers, in a rank of a program, what it is doing: whenever the launcher asks.

A thread looks for a file in the folder of reports. It starts before `init_rpc`, in which a rank may
wait for another one for ever.
"""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tuner.world.rank.probe import rpc_state

_POLL_S = 0.1


class Prober:
    """Answers for one agent: `tuner.torch_private.programs.Attendant`."""

    def __init__(
        self, request: Path, standing: Callable[[], Mapping[str, object]], tell: Callable[..., None]
    ) -> None:
        """`standing` is told with each answer."""
        self._request = request
        self._standing = standing
        self._tell = tell
        self._ended = threading.Event()

    def prepare(self, name: str, rank: int) -> None:
        """Answer from now on."""
        self._name, self._rank = name, rank
        threading.Thread(target=self._answer, name="rpc-tuner probe", daemon=True).start()

    def start(self) -> None:
        """The agent has started; it is asked as before."""

    def end(self, reason: str) -> None:
        """Answer no more."""
        del reason
        self._ended.set()

    def _answer(self) -> None:
        answered = self._asked()
        while not self._ended.wait(_POLL_S):
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
