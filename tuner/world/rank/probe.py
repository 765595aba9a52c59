"""Runs in every rank: what its RPC threads are doing, asked when a world takes too long."""

import sys
from pathlib import PurePath
from types import FrameType
from typing import Any

from tuner.torch_private.agent import agent_gauges
from tuner.world.rank.waiting import waits_for_answer

_SERVING_FILE = "torch/distributed/rpc/internal.py"


def rpc_state() -> dict[str, Any]:
    """What the threads of the agent's pool are doing, in numbers; None where the agent has none.

    Returns:
        `pool_size` and `idle` in threads; `serving` and `calling` in calls under way, to this
        process and from it; `waiting`, the threads that serve a request and, inside it, wait for
        the answer to a call.
    """
    gauges = agent_gauges()
    waiting = sum(
        _serves_request(frame) and waits_for_answer(frame)
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


def _serves_request(innermost: FrameType) -> bool:
    frame: FrameType | None = innermost
    while frame is not None:
        if PurePath(frame.f_code.co_filename).as_posix().endswith(_SERVING_FILE):
            return True
        frame = frame.f_back
    return False
