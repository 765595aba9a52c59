"""What limits a driver, and why: of planted traces, each alone and together, and of none;
which calls failed, and which is nearest to its time limit."""

from typing import Any

import pytest

from testing.synthetic import call, trace
from tests.golden.media import PLANTED, stored
from tests.trace.analyze.diagnoses import ROLES, SCENARIOS, rendered
from tests.trace.analyze.driver_scenarios import raises
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS
from tuner.trace.analyze.critical_path import Share
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.failed_calls import failed_calls, slowest_call
from tuner.trace.analyze.path_limits import Limit, unseen_shares

SAID = dict(
    each.rstrip("\n").split("\n", 1) for each in stored(PLANTED)["diagnoses.txt"].split("# ")[1:]
)
OF_LOCKS = "If they wait for a lock, more threads do not help"
Row = dict[str, Any]
NAME = "rpc_async#udf(worker0 -> worker1)."
NO_LIMIT: Row = {"timeout_s": None}


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_said_of_a_planted_trace(name: str) -> None:
    taken = SCENARIOS[name]()
    found = diagnose(taken, ROLES)
    assert rendered(found, slowest_call(taken)) == SAID[name], "`make golden` shows the changes"
    # Sentences and facts are one.
    if " not help" in found.text.replace(OF_LOCKS, ""):
        assert found.enough_threads
    assert not (found.enough_threads and "more threads help" in found.text.lower())
    for suggestion in found.suggestions:
        assert found.text.count(f"--space {suggestion.space} tries it.") == 1
        knob, values = KNOBS[suggestion.knob], suggestion.values.split(",")
        # Of threads the least is what the server has.
        if knob != NUM_WORKER_THREADS:
            assert knob.default in map(knob.read, values)


def test_nothing_is_said_of_what_is_not_planted() -> None:
    assert [*SAID] == [*SCENARIOS]


@pytest.mark.parametrize("kind", ["unseen", "backward"])
def test_what_is_missing_is_said_without_a_number_that_is_not_known(kind: str) -> None:
    lost = trace([call(1, 0, 9)])
    limit = Limit(kind=kind, processes=("worker1",), functions=("udf",), share=Share(0.25, 0, 0.9))
    (sentence,) = unseen_shares(lost, "worker0", [limit])
    assert "or an unknown share of the time" in sentence
    assert "%" not in sentence


def times_out(call_id: int, after_ms: float, **columns: Any) -> Row:
    return call(call_id, 0, after_ms, status="timed-out",
                error="RuntimeError: RPCErr:1:RPC ran for more than set timeout",
                **{"timeout_s": after_ms / 1e3, **columns})  # fmt: skip


LATE = [times_out(i, 100, function="f") for i in range(12)]
FINE = [call(100 + i, 0, 9, function="f", timeout_s=None) for i in range(88)]


@pytest.mark.parametrize(
    ("calls", "sentences"),
    [
        # Those that time out are apart from those that raise.
        ([*LATE, *FINE], ["12 of 100 calls of f timed out after 100ms."]),
        ([*LATE, raises(50, "a.b.Gone: now", function="f", timeout_s=None)],
         ["1 of 13 calls of f raised a.b.Gone and 12 timed out after 100ms."]),
        ([times_out(1, 100), times_out(2, 5000)],
         ["2 of 2 calls of udf timed out after 100ms to 5s."]),
        # The function with the most failures comes first.
        ([raises(10 * n + i, "E", function=f"f{n}") for n in range(6) for i in range(n + 1)],
         ["6 of 6 calls of f5 raised E.", "5 of 5 calls of f4 raised E.",
          "4 of 4 calls of f3 raised E.", "6 calls of 3 other functions failed too."]),
        # A fetch, and an error without a name.
        ([raises(1, "", kind="to_here", body="fetch", function="")],
         ["1 of 1 call of to_here raised an exception."]),
        ([raises(2, "KeyError()"), raises(3, "KeyError()"), raises(4, "OSError(2, 'no')")],
         ["3 of 3 calls of udf raised KeyError and OSError."]),
    ],
)  # fmt: skip
def test_each_function_whose_calls_fail_has_a_sentence(
    calls: list[Row], sentences: list[str]
) -> None:
    assert failed_calls(trace(calls)) == tuple(sentences)


LONG = call(1, 0, 600, timeout_s=5.0)


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        # A longer one is not as near; one without a limit is not near to any, nor an unknown one.
        ([LONG, call(2, 0, 80, timeout_s=0.1), call(3, 0, 900, timeout_s=0.0),
          call(4, 0, 950, **NO_LIMIT)], f"took 80ms of 100ms (80 %): {NAME}"),
        ([call(3, 0, 900, timeout_s=0.0)], ""),
        ([LONG, times_out(2, 100.2)], f"timed out after 100ms: {NAME}"),
        # An answer may come with the limit; what goes on beyond it has lost its client.
        ([call(1, 0, 103, timeout_s=0.1), call(2, 0, None, timeout_s=0.1)],
         f"took 103ms, and had 100ms: {NAME}"),
        ([call(2, 0, None, timeout_s=0.1)], ""),
        # A call without an answer lasts to the end of the trace.
        ([call(1, 500, None, timeout_s=4.0)], f"had no answer after 1s of 4s (25 %): {NAME}"),
    ],
)  # fmt: skip
def test_the_call_nearest_to_its_time_limit(calls: list[Row], says: str) -> None:
    found = slowest_call(trace(calls, window_ms=(0, 1500)))
    text = found.text.removeprefix("The call nearest to its time limit ") if found else ""
    assert text == says
