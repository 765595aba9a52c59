"""The connection to a Ray cluster: the one that is named, the one that runs here, or our own.

Ray ends a process where the first host of the cluster is gone too long. That end says nothing of a
study, so the command asks the first host now and then, and ends before.
"""

import math
import os
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from tuner.errors import LauncherError
from tuner.text import duration
from tuner.world.descendants import CLUSTER_VARIABLE, cluster_reaped
from tuner.world.ray.placing import HostInfo

AUTO = "auto"
# Ray's sockets are files whose whole names have at most 107 characters.
_LONGEST_FOLDER = 30
# Nothing of a world goes through Ray's object store but traces.
_OWN: dict[str, Any] = {"include_dashboard": False, "object_store_memory": 100_000_000}
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
_REFUSED = (RayError, RuntimeError, ValueError, OSError)
ASK_EVERY_S = 5.0
# A connection takes milliseconds, where anybody answers.
_ANSWER_S = 2.0
# Ray ends a process after so many seconds, or after those in the environment variable.
_RAY_ENDS_S = 60.0
_RAY_ENDS = "RAY_gcs_rpc_server_reconnect_timeout_s"


@contextmanager
def connected(address: str | None, notify: Callable[[str], None]) -> Iterator[None]:
    """A connection to a cluster; one that this process has already is used, and stays. `address` is
    HOST:PORT or `auto`, the cluster that runs here; None: that one, or else one of this machine
    alone for the time of the block. LauncherError if there is no such cluster."""
    if ray.is_initialized():
        yield
        return
    # No message: a search is not Ray's business.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with ExitStack() as stack:
        if not _joined(address):
            parent = tempfile.gettempdir()
            parent = parent if len(parent) <= _LONGEST_FOLDER else "/tmp"
            folder = Path(tempfile.mkdtemp(prefix="rpc-", dir=parent))
            stack.enter_context(cluster_reaped(folder))
            stack.callback(_leave)
            os.environ[CLUSTER_VARIABLE] = str(folder)
            try:
                ray.init(address="local", _temp_dir=str(folder), **_OWN, **_QUIET)
            except _REFUSED as error:
                why = f"Ray cannot be started on this machine: {_first_line(error)}"
                raise LauncherError(why) from None
            finally:
                del os.environ[CLUSTER_VARIABLE]
            notify(
                "no Ray cluster runs here: one of this machine alone is started, and ended again"
            )
        stack.callback(_leave)
        yield


def _leave() -> None:
    with suppress(RayError, RuntimeError):
        ray.shutdown()


def _joined(address: str | None) -> bool:
    """Whether there is a cluster to join. LauncherError if the one that is named cannot be."""
    named = address or os.environ.get("RAY_ADDRESS")
    # Ray notes where a cluster runs; it would look for long where there is none.
    noted = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    if not named and not noted.exists():
        return False
    try:
        ray.init(address=address or AUTO, **_QUIET)
    except _REFUSED as error:
        if not named and isinstance(error, ConnectionError):
            return False
        raise LauncherError(
            f"no Ray cluster can be joined at {named or AUTO}: {_first_line(error)}. Run this "
            "command on a host of the cluster, where `ray start --head`, or `ray start --address "
            "HOST:PORT`, was run before"
        ) from None
    return True


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def living_hosts() -> list[HostInfo]:
    """The hosts that the cluster has now, this one first; of one name, with their addresses."""
    here = ray.get_runtime_context().get_node_id()
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    alive = [node for node in nodes if node["Alive"]]
    named = Counter(node["NodeManagerHostname"] for node in alive)
    found = [
        HostInfo(
            node=node["NodeID"],
            name=name if named[name] == 1 else f"{name} ({address})",
            address=address,
            cpus=int(node["Resources"].get("CPU", 0)),
            gpus=int(node["Resources"].get("GPU", 0)),
        )
        for node in alive
        for name, address in [(node["NodeManagerHostname"], node["NodeManagerAddress"])]
    ]
    return sorted(found, key=lambda host: (host.node != here, host.address, host.node))


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
                f"{duration(patience_s)}. Without it there is no cluster"
            )


FIRST_HOST = FirstHost()
"""A process has joined one cluster at most."""


def _place() -> tuple[str, int]:
    """Where Ray listens there."""
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    return host.strip("[]"), int(port)
