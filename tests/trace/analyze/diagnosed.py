"""What the tests of the diagnosis and of its rules share."""

import dataclasses
from typing import Any

import pandas as pd

from tests.trace.synthetic import Part, call, ranks, trace
from tuner.trace.analyze.diagnosis import Rule, diagnose
from tuner.trace.model.trace import Trace

COMPUTE = [Part("cpu", 5)]
SLEEP = [Part("sleep", 5)]


def said(taken: Trace, rule: Rule, *phrases: str) -> str:
    """The text of the diagnosis, which has that rule and these phrases, in this order."""
    found = diagnose(taken)
    assert found.rule == rule, found.text
    rest = found.text
    for phrase in phrases:
        assert phrase in rest, f"no {phrase!r} in {rest!r}"
        rest = rest.split(phrase, 1)[1]
    # Sentences and fact are one: "if they wait for a lock, more threads do not help" is neither.
    if " not help" in found.text.replace("if they wait for a lock, more threads do not help", ""):
        assert found.enough_threads, found.text
    assert not (found.enough_threads and "more threads help" in found.text)
    suggested = [each.sentence for each in found.suggestions]
    shown = [
        each
        for each in found.sentences
        if "the trace does not show how" not in each and each not in suggested
    ]
    assert len(shown) <= 1 + 2 * max(len(found.limits), 1)
    return found.text


def with_calls(taken: Trace, *more: dict[str, Any]) -> Trace:
    """The trace with these calls added."""
    calls = pd.concat([taken.calls, trace(more).calls], ignore_index=True)
    return dataclasses.replace(taken, calls=calls)


def in_pairs(*, on_cpu: float, threads: int = 4) -> Trace:
    """Always two calls in parallel that are on the CPU for this share of their time."""
    calls = [
        call(2 * i + who, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 10), thread=11 + who,
             cpu_ms=10 * on_cpu, run_queue_ms=0)
        for i in range(100)
        for who in (0, 1)
    ]  # fmt: skip
    return trace(calls, processes=ranks(threads=threads))


def waits_for_a_cpu(share: float, *, off: float = 0.0, cpu_s: float | None = None) -> Trace:
    """A second of calls, one by one, that wait for a CPU, and are off it, for these shares."""
    calls = [
        call(i, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 10),
             cpu_ms=10 * (1 - share - off), run_queue_ms=10 * share)
        for i in range(100)
    ]  # fmt: skip
    return trace(calls, processes=ranks(threads=1, cpu_count=2, cpu_s=cpu_s))
