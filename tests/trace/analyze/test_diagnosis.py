from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.trace.analyze.diagnosed import COMPUTE, SLEEP, said, with_calls
from tests.trace.analyze.planted import Rows, a_chain_of_three, repeated
from tests.trace.synthetic import call, ranks, simulate, trace
from tuner.trace.analyze.critical_path import Share
from tuner.trace.analyze.diagnosis import Diagnosis, Rule, diagnose
from tuner.trace.analyze.path_limits import Limit, unseen_shares
from tuner.trace.model.trace import Trace


def test_no_calls() -> None:
    assert diagnose(trace()).limits == ()
    said(trace(), "no-clear-limit", "No clear limit: the trace holds no calls.")


def test_too_few_calls() -> None:
    said(
        simulate(SLEEP, threads=1, at_once=3, steps=3), "no-clear-limit", "only 9 calls that ended."
    )
    given_up = [call(i, i, i + 1, served_ms=(i, i), status="timed-out") for i in range(3)]
    said(trace(given_up), "no-clear-limit", "holds only 3 calls that ended.")
    said(simulate(SLEEP, threads=1, at_once=5, steps=2), "blocked-threads")


def test_a_server_of_which_too_little_is_known_is_not_explained() -> None:
    taken = simulate(SLEEP, threads=1, at_once=4)
    unseen = [call(1000 + i, i, i + 0.1, client_rank=2) for i in range(11)]
    assert "more threads" not in said(with_calls(taken, *unseen), "calls", "worker1 is the limit")
    fetched = [call(1000 + i, i, i + 0.1, kind="to_here", body="fetch") for i in range(11)]
    said(with_calls(taken, *fetched), "blocked-threads")


def test_spare_threads_are_named() -> None:
    said(
        simulate(COMPUTE, threads=4, at_once=1, steps=20),
        "calls",
        "worker1 is the limit: for 96 % of the time, worker0 waited while udf was on the CPU on "
        "worker1.",
        "At most 1 of the 4 threads of worker1 were at work at a time: more do not help.",
    )


def test_a_server_that_merely_waits_is_not_named() -> None:
    """worker1 is the busiest server, since each of its calls waits for one to worker3."""
    found = diagnose(repeated(a_chain_of_three))
    assert {limit.kind: limit.processes for limit in found.limits if limit.kind != "wire"} == {
        "off_cpu": ("worker3",)
    }
    assert (
        "for 40 % it waited while last was off the CPU on worker3 (asleep, or waiting for I/O, a "
        "lock, the GIL or a call that is not recorded)"
    ) in found.text


def test_a_limit_that_is_no_lack_of_threads_is_not_explained_by_one() -> None:
    """Calls of worker2 wait for a thread; those of the driver do not, and wait all the same."""
    asleep: dict[str, Any] = {"cpu_ms": 0, "run_queue_ms": 0}

    def step(at: float, number: int) -> Rows:
        begun = at + (9 if number else 5.1)
        crowd = [
            call(number + i, at, at + i // 2, served_ms=(at + i // 2 - 1, at + i // 2),
                 client_rank=2, thread=11 + i % 2, function="crowd", **asleep)
            for i in range(2, 12)
        ]  # fmt: skip
        return [
            *crowd,
            call(number, at + 5, at + 10, served_ms=(begun, at + 10), thread=12, **asleep),
            call(number + 1, at + 5, at + 10, served_ms=(at + 5, at + 10), client_rank=2, **asleep),
        ]

    taken = repeated(step, steps=20, processes=ranks(3, threads=2))
    assert {limit.kind for limit in diagnose(taken).limits} == {"caller", "dispatch"}
    assert "more threads help" not in diagnose(taken).text


@pytest.mark.parametrize(("queued_ms", "rule"), [(0.1, "calls"), (1.2, "calls"), (1.6, "queueing")])
def test_a_queue_of_less_than_a_seventh_of_the_latency(queued_ms: float, rule: Rule) -> None:
    calls = []
    for i in range(20):
        start = 16 * i
        calls += [
            call(2 * i, start, start + 8, served_ms=(start, start + 8), cpu_ms=8, run_queue_ms=0),
            call(2 * i + 1, start + 8 - 2 * queued_ms, start + 16, cpu_ms=8, run_queue_ms=0,
                 served_ms=(start + 8, start + 16)),
        ]  # fmt: skip
    said(trace(calls, processes=ranks(threads=1)), rule)


def of_durations(*durations_ms: float, steps: int | None) -> Trace:
    """Steps of one call each that is served for 3 ms; the rest is its way back."""
    starts = np.cumsum([0.0, *durations_ms])
    calls = [
        call(i, at, at + lasts, served_ms=(at, at + 3), cpu_ms=3, run_queue_ms=0)
        for i, (at, lasts) in enumerate(zip(starts, durations_ms, strict=False))
    ]
    return trace(calls, processes=ranks(), window_ms=(0, float(starts[-1])), steps=steps)


def test_steps_of_a_workload_that_were_disturbed_are_left_out_and_said() -> None:
    durations = [4, 4, 40, 4.5, 5] * 4
    found = diagnose(of_durations(*durations, steps=20))
    assert found.sentences[0].startswith("Two things limit worker0: for 69 %")
    assert found.sentences[-1] == (
        "4 of 20 steps are left out, since their time is more than twice that of the fast ones: "
        "for 93 % of it, the driver waited for calls on their way, most of udf to worker1 "
        "(transport, unpickling, pickling the answer, waking a thread)."
    )


def test_no_step_of_a_program_is_left_out() -> None:
    """They need not do the same, and the long ones may be what takes the time."""
    found = diagnose(of_durations(*[4, 4, 40, 4.5, 5] * 4, steps=None))
    assert found.sentences[0].startswith("Two things limit worker0: for 74 %")
    assert "left out" not in found.text


def test_how_much_of_a_program_s_time_holds_calls_is_said() -> None:
    def short(at: float, number: int) -> Rows:
        return [call(number, at, at + 9, served_ms=(at + 1, at + 8))]

    wide: dict[str, Any] = {"steps": 20, "window_ms": (-1800, 200)}
    taken = replace(repeated(short, **wide), steps=None)
    said(taken, "calls", "the 199ms from the first call to the end of the last one, 10 % of the 2s")
    assert "recorded: the rest" not in diagnose(replace(taken, steps=20)).text
    assert "outside of it" not in diagnose(taken).text
    assert "recorded: the rest" not in diagnose(replace(taken, window_ns=(0, 200_000_000))).text


def test_calls_of_others_beside_the_driver_s_are_not_said_to_be_none() -> None:
    """Three ranks call worker0 for 200 ms each, one after another; the last one is the slowest."""
    processes = ranks(4)
    calls = [
        call(20 * rank + i, at, at + lasts, served_ms=(at, at + lasts), client_rank=rank,
             server_rank=0)
        for rank, lasts in ((1, 8), (2, 8), (3, 10))
        for i in range(20)
        for at in [500 * rank + 10 * i]
    ]  # fmt: skip
    said(
        trace(calls, processes=processes, window_ms=(0, 2000)),
        "calls",
        "All of that is about the 200ms from the first call of worker3 to the end of its last one, "
        "10 % of the 2s recorded: 40 of 60 calls lie outside of it.",
    )


# What a trace does not show is said to be missing, with the reason, and is no limit.


def of_two_servers(at: float, number: int) -> Rows:
    """Two calls in turn, of which only the first one's server kept what it recorded."""
    seen: dict[str, Any] = {"served_ms": (at + 0.5, at + 3.5), "cpu_ms": 0, "run_queue_ms": 0}
    return [
        call(number, at, at + 4, **seen),
        call(number + 1, at + 4, at + 10, server_rank=2, function="look_up"),
    ]


LOST = (
    "worker2 ended from one moment to the next, by a signal or os._exit: the trace has the calls",
    "worker1 and worker2 were still serving 2 calls when the trace ended",
    "worker2 answered 10 calls from worker0 without a server's span",
    "worker21 recorded nothing: 3 calls to it have no server's side",
    "the kernel under worker2 does not tell how long threads wait",
)


def test_a_server_whose_records_were_lost_is_not_the_limit() -> None:
    found = diagnose(repeated(of_two_servers, losses=LOST))
    assert (found.rule, found.limits) == ("no-clear-limit", ())
    assert found.text.startswith(
        "No clear limit of worker0: for 30 % of the time it waited while udf was off the CPU on "
    )
    assert found.sentences[-1] == (
        "For 60 % of the time, worker0 waited for look_up on worker2, and the trace does not show "
        "how it was served: worker2 ended from one moment to the next, by a signal or os._exit; "
        "worker1 and worker2 were still serving 2 calls when the trace ended; worker2 answered 10 "
        "calls from worker0 without a server's span."
    )


@pytest.mark.parametrize("kind", ["unseen", "backward"])
def test_what_is_missing_is_said_without_a_number_that_is_not_known(kind: str) -> None:
    lost = trace([call(1, 0, 9)])
    limit = Limit(kind=kind, processes=("worker1",), functions=("udf",), share=Share(0.25, 0, 0.9))
    (sentence,) = unseen_shares(lost, "worker0", [limit])
    assert "or an unknown share of the time" in sentence
    assert "%" not in sentence


def served_once(body: str, **facts: Any) -> Diagnosis:
    """Ten calls that are seen, and forty of which the trace has the client's side."""
    columns: dict[str, Any] = {"body": body}
    if body == "fetch":
        columns |= {"kind": "to_here", "function": ""}

    def step(at: float, number: int) -> Rows:
        calls = [call(number, at, at + 1, served_ms=(at, at + 1))]
        return calls + [
            call(number + i, at + 2 * i, at + 2 * i + 2, **columns) for i in range(1, 5)
        ]

    return diagnose(repeated(step, **facts))


@pytest.mark.parametrize(
    ("body", "operators_recorded", "why"),
    [
        ("builtin", False, "builtin operators run without Python, and only a trace with operators "
         "shows them."),
        ("script", False, "TorchScript functions run without Python, and only a trace with "
         "operators shows them."),
        ("script", True, "TorchScript functions run without Python."),
        ("fetch", False, "PyTorch answers to_here without Python."),
    ],
)  # fmt: skip
def test_what_runs_without_python_is_the_reason(
    body: str, operators_recorded: bool, why: str
) -> None:
    found = served_once(body, operators_recorded=operators_recorded)
    assert found.sentences[-1].endswith(f"and the trace does not show how it was served: {why}")


def test_where_nothing_is_shown_the_reason_is_said_too() -> None:
    scripts = trace([call(i, i, i + 1, body="script") for i in range(50)])
    assert diagnose(scripts).text == (
        "No clear limit: the trace does not show how any call was served: TorchScript functions "
        "run without Python, and only a trace with operators shows them."
    )
    seen = [call(100 + i, i, i + 1, served_ms=(i, i + 1)) for i in range(5)]
    few = trace([*seen, *(call(i, i, i + 1) for i in range(50))])
    assert diagnose(few).text == (
        "No clear limit: the trace shows of only 5 of 55 calls that ended how they were served."
    )


def test_of_a_server_that_is_only_seen_in_part_no_threads_are_spare() -> None:
    def step(at: float, number: int) -> Rows:
        lost = [call(number + 9, at, at + 1, client_rank=2)] if number == 0 else []
        return [call(number, at, at + 10, served_ms=(at, at + 9)), *lost]

    def say(taken: Trace) -> str:
        return diagnose(taken).text

    whole = repeated(lambda at, number: step(at, number)[:1])
    assert "threads of worker1 were at work at a time: more do not help" in say(whole)
    assert "more do not help" not in say(repeated(step))
    assert not diagnose(repeated(step)).enough_threads
    assert "more do not help" in say(replace(whole, ranks=ranks(2)))
