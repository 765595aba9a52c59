"""The hooks of a program count each of its calls once."""

import json
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from tuner.plan.config import Config
from tuner.torch_private.private_names import SENDERS
from tuner.torch_private.programs import ProgramHooks
from tuner.world.command.order import HookOrder

THREADS, CALLS = 4, 50


def test_no_call_is_lost_wherever_threads_take_turns() -> None:
    """Another one goes on after each instruction of the counting, as without a GIL."""
    order = json.loads(HookOrder(config=Config.of({}), reports=Path("nowhere")).to_json())
    hooks = ProgramHooks(None, order, lambda kind, **facts: None)
    send: Any = hooks._counting(lambda *sent: None, SENDERS["_invoke_rpc_builtin"])

    def give_way(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is not send.__code__:
            return None
        frame.f_trace_opcodes = True
        time.sleep(0)
        return give_way

    def call() -> None:
        sys.settrace(give_way)
        try:
            for _ in range(CALLS):
                send(None, "aten::add")
        finally:
            sys.settrace(None)

    threads = [threading.Thread(target=call) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hooks._count() == THREADS * CALLS
    assert hooks._outcomes.facts(lambda: 0)["functions"] == [["aten::add", THREADS * CALLS]]
