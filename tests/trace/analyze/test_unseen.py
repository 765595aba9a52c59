"""What a trace does not show is said to be missing, with the reason, and is no limit."""

from dataclasses import replace
from typing import Any

import pytest

from tests.trace.analyze.planted import Rows, repeated
from tests.trace.synthetic import call, ranks, trace
from tuner.trace.analyze.critical_path import Share
from tuner.trace.analyze.diagnosis import Diagnosis, diagnose
from tuner.trace.analyze.path_limits import Limit, unseen_shares
from tuner.trace.model.trace import Trace


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
    (said,) = unseen_shares(lost, "worker0", [limit])
    assert "or an unknown share of the time" in said
    assert "%" not in said


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
