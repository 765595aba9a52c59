"""How a fuzzer runs: a few examples in a test run, and for minutes by hand.

`RPC_TUNER_FUZZ_MINUTES=10 pytest tests/fuzz --timeout 0` gives each fuzzer ten minutes of examples
that it has not seen.
"""

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from tuner.errors import TunerError
from tuner.text import printable

MINUTES = float(os.environ.get("RPC_TUNER_FUZZ_MINUTES", "0"))
LONGEST_S = 60.0
"""CPU time of one example: none takes a hundredth of it."""
MOST_CHARACTERS = 25_000

T = TypeVar("T")
Drawn = TypeVar("Drawn")


def fuzz(examples: SearchStrategy[Drawn], check: Callable[[Drawn], object], number: int) -> None:
    """Check a number of examples, always the same; or new ones, as long as the minutes last."""
    end_s = time.monotonic() + 60 * MINUTES

    def one(example: Any) -> None:
        begun_s = time.process_time()
        check(example)
        assert time.process_time() - begun_s < LONGEST_S, "it nearly hangs"

    run = settings(
        max_examples=number,
        deadline=None,
        derandomize=MINUTES == 0,
        database=None,
        suppress_health_check=list(HealthCheck),
    )(given(examples)(one))
    run()
    while time.monotonic() < end_s:
        run()


def survives(task: Callable[[], T]) -> T | None:
    """What the task returns; None if it was refused in words. Any other exception is a find."""
    try:
        return task()
    except TunerError as error:
        message = str(error)
        assert message.strip()
        assert printable(message) == message
        assert len(message) < MOST_CHARACTERS
    return None
