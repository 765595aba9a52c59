"""What a call costs, in steps of our own Python: times on a busy machine tell nothing."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import tuner

_OURS = str(Path(tuner.__file__).parent)


def steps_of(do: Callable[[], object]) -> int:
    """How many bytecode instructions of the package `do` runs, those of loops included."""
    steps = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        if event == "call":
            if not frame.f_code.co_filename.startswith(_OURS):
                return None
            frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
    return steps
