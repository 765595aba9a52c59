"""Whether the first host of the cluster answers: Ray ends its processes where it is gone too long.

Ray's own end of a command says nothing of a study, so the command ends before that.
"""

import math
import os
import socket
import time

import ray

from tuner.errors import LauncherError
from tuner.text import duration

ASK_EVERY_S = 5.0
# A connection takes milliseconds, where anybody answers.
_ANSWER_S = 2.0
# Ray ends a process after so many seconds, or after those in the environment variable.
_RAY_ENDS_S = 60.0
_RAY_ENDS = "RAY_gcs_rpc_server_reconnect_timeout_s"


class ClusterLostError(LauncherError):
    """The cluster is without its first host: no fact about a configuration."""


class FirstHost:
    """The first host of the cluster that this process has joined."""

    def __init__(self) -> None:
        self._asked_s = -math.inf
        self._silent_since_s: float | None = None

    def answers(self) -> bool:
        """Whether Ray takes connections there."""
        self._asked_s = time.monotonic()
        try:
            socket.create_connection(_place(), _ANSWER_S).close()
        except OSError:
            self._silent_since_s = self._silent_since_s or self._asked_s
            return False
        self._silent_since_s = None
        return True

    def check(self) -> None:
        """Ask now and then. ClusterLostError if it is silent for half of Ray's own patience."""
        if time.monotonic() - self._asked_s < ASK_EVERY_S or self.answers():
            return
        patience_s = float(os.environ.get(_RAY_ENDS, _RAY_ENDS_S)) / 2
        if self._asked_s - (self._silent_since_s or self._asked_s) >= patience_s:
            raise ClusterLostError(
                f"the first host of the Ray cluster, at {_place()[0]}, has given no answer for "
                f"{duration(patience_s)}, and without it there is no cluster"
            )


FIRST_HOST = FirstHost()
"""A process has joined one cluster at most."""


def _place() -> tuple[str, int]:
    """Where Ray listens there."""
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    return host.strip("[]"), int(port)
