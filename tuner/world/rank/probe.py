"""Runs in every rank: what its RPC threads are doing, asked when a world takes too long."""

import linecache
import re
import sys
from pathlib import PurePath
from types import FrameType
from typing import Any

from tuner.torch_private.agent import agent_gauges

# Where a thread of Python sits while it waits for the answer to a call of its own.
_WAITING_FILES = ("torch/distributed/rpc/api.py", "torch/futures/__init__.py")
_WAITING_LINE = re.compile(r"\.(wait|to_here|rpc_sync)\(|\brpc_sync\(")
_SERVING_FILE = "torch/distributed/rpc/internal.py"


def rpc_state() -> dict[str, Any]:
    """Threads of the agent's pool: how many there are, are idle, and wait for their own calls.

    `waiting` counts the threads that serve a request and, inside it, wait for another call.
    """
    gauges = agent_gauges()
    waiting = sum(
        _serves_request(frame) and _waits_for_call(frame)
        for frame in sys._current_frames().values()
    )
    return {
        "pool_size": _number(gauges, "agent.thread_pool_size"),
        "idle": _number(gauges, "agent.num_idle_threads"),
        "serving": _number(gauges, "agent.server_active_calls"),
        "calling": _number(gauges, "agent.client_active_calls"),
        "waiting": waiting,
    }


def _number(gauges: dict[str, str], name: str) -> int | None:
    text = gauges.get(name, "")
    return int(text) if text.isdecimal() else None


def _waits_for_call(innermost: FrameType) -> bool:
    path = PurePath(innermost.f_code.co_filename).as_posix()
    line = linecache.getline(innermost.f_code.co_filename, innermost.f_lineno)
    return path.endswith(_WAITING_FILES) or bool(_WAITING_LINE.search(line))


def _serves_request(innermost: FrameType) -> bool:
    frame: FrameType | None = innermost
    while frame is not None:
        if PurePath(frame.f_code.co_filename).as_posix().endswith(_SERVING_FILE):
            return True
        frame = frame.f_back
    return False
