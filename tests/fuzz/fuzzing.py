"""Valid inputs made invalid, by values that no reader expects and byte by byte; and their check.

A fuzzer runs a few examples in a test run, and for minutes by hand:
`RPC_TUNER_FUZZ_MINUTES=10 pytest tests/fuzz --timeout 0` gives each ten minutes of new examples.
"""

import copy
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tuner.errors import TunerError
from tuner.text import printable

MINUTES = float(os.environ.get("RPC_TUNER_FUZZ_MINUTES", "0"))
LONGEST_S = 60.0
"""CPU time of one example: none takes a hundredth of it."""
MOST_CHARACTERS = 25_000

T = TypeVar("T")
Drawn = TypeVar("Drawn")

RANDOMS = st.randoms(use_true_random=True)
"""What hypothesis draws choice by choice is slower, and stays near what it drew before."""
TEXTS = (
    "", " ", "*", ".", "-", "-1", "nan", "inf", "1e300", "9" * 400, "../..", "/", "\0", "\x1b[2J",
    "\x9b31m", "\u202egnp", "\ud800", "\udc80", "\r\n", "a\nimport os", "a\x85b\u2028c", '"""',
    "\\", "'", "#", "$x$", "{{7*7}}", "<script>", "[/red]", "| a |", "a" * 5000, "😀", "agent.x",
    "1..8", "rpc_async#f(a -> b)", "to_here#(a)->(b)", "true", "0", "60s", "2026-01-01T00:00:00Z",
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 255, 2**31, -(2**31), 2**53, 2**62, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0,
    5e-324, 1e-9, 1e15, 1e300, -1e300, math.inf, -math.inf, math.nan,
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": {}}, [1, "a"], {"a": 1})


def fuzz(examples: SearchStrategy[Drawn], check: Callable[[Drawn], object], number: int) -> None:
    """Check a number of examples, always the same; or new ones, as long as the minutes last."""
    end_s = time.monotonic() + 60 * MINUTES

    def one(example: Any) -> None:
        begun_s = time.process_time()
        check(example)
        assert time.process_time() - begun_s < LONGEST_S, "it nearly hangs"

    run = settings(
        max_examples=number, deadline=None, derandomize=MINUTES == 0, database=None,
        suppress_health_check=list(HealthCheck),
    )(given(examples)(one))  # fmt: skip
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


def mutated(seeds: Sequence[Any]) -> SearchStrategy[Any]:
    """One of the documents, with one to four changes somewhere in it."""
    return RANDOMS.map(lambda random: changed(random, random.choice(seeds)))


def mangled(seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> SearchStrategy[bytes]:
    """One of the texts, with one to five changes of its bytes."""
    return RANDOMS.map(lambda random: _mangled(random, random.choice(seeds), tokens))


def as_json(document: Any) -> bytes:
    """JSON as other programs write it: lone surrogates are escaped, NaN is `NaN`."""
    return json.dumps(document).encode()


def _value(random: Random) -> Any:
    """What may stand in the place of anything."""
    deep = json.loads("[" * 60 + "1" + "]" * 60)
    kinds = (NUMBERS, NUMBERS, TEXTS, TEXTS, (*OTHERS, random.uniform(-1e4, 1e4), deep))
    return copy.deepcopy(random.choice(random.choice(kinds)))


def changed(random: Random, seed: Any) -> Any:
    """The document with one to four changes."""
    holder = {"document": copy.deepcopy(seed)}
    for _ in range(random.randint(1, 4)):
        _change(random, holder)
    return holder["document"]


def _change(random: Random, holder: dict[str, Any]) -> None:
    """Change a value of a container, which is found by going down from the root."""
    node: Any
    key: Any
    node, key, inner = holder, "document", holder["document"]
    is_root = True
    while isinstance(inner, dict | list) and inner and (is_root or random.random() < 0.85):
        is_root = False
        node = inner
        key = random.choice(list(node) if isinstance(node, dict) else range(len(node)))
        inner = node[key]
    change = random.choice(("replace", "replace", "replace", "nudge", "remove", "repeat", "rename"))
    if change == "remove" and not is_root:
        del node[key]
    elif change == "repeat" and isinstance(node, list):
        node.insert(random.randint(0, len(node)), copy.deepcopy(inner))
    elif change == "rename" and isinstance(node, dict) and not is_root:
        node[random.choice(TEXTS)] = node.pop(key)
    elif change == "nudge" and isinstance(inner, int | float) and math.isfinite(inner):
        node[key] = random.choice((-inner, inner * 1000, inner + 1, float(inner)))
    elif change == "nudge" and isinstance(inner, str):
        place = random.randint(0, len(inner))
        node[key] = inner[:place] + random.choice(TEXTS) + inner[place:]
    else:
        node[key] = _value(random)


def _mangled(random: Random, seed: bytes, tokens: Sequence[bytes]) -> bytes:
    text = bytearray(seed)
    for _ in range(random.randint(1, 5)):
        start = random.randint(0, len(text))
        end = min(len(text), start + random.choice((0, 1, 2, 8, 100, 10**6)))
        piece = bytes(text[start:end])
        change = random.randrange(4)
        if change < 2:
            own = random.randbytes(random.randrange(4))
            text[start:end] = random.choice([*tokens, own]) if change else own
        elif change == 2:
            text[start:start] = piece[:1000] * random.randint(1, 3)
        else:
            del text[start:end]
            place = random.randint(0, len(text))
            text[place:place] = piece
    return bytes(text)
