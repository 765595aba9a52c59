"""Changes of what calls carry: forecasts with a known truth."""

from typing import Any

import pytest

from testing.synthetic import call, ns, ranks, trace
from tests.trace.forecast.test_changes import forecast, kinds
from tuner.trace.forecast.change import Change
from tuner.trace.forecast.forecasts import Model
from tuner.trace.model.trace import Trace


def with_tensors(number: int = 4000, calls: int = 20, **columns: Any) -> Trace:
    """Answers that take 3 ms to pickle, 4 to arrive and 2 to unpickle; requests take 0.2."""
    rows = [
        call(each, at, at + 10, served_ms=(at + 0.2, at + 1.2), run_queue_ms=0,
             kind="rpc_sync", answered_ns=ns(at + 4.2), received_ns=ns(at + 8), request_bytes=100,
             request_tensors=0,
             **{"cpu_ms": 1, "answer_tensors": number, "answer_bytes": 4 * number} | columns)
        for each in range(calls) for at in [10.0 * each]
    ]  # fmt: skip
    return trace(rows, window_ms=(0, 10 * calls), processes=ranks(host="here"))


@pytest.mark.parametrize(
    ("taken", "ratio"),
    [
        (with_tensors(), (0.2 + 0.2) / 10),  # made as one tensor, the function takes no time
        (with_tensors(110), (0.2 + 1 + 0.11 + 0.2) / 10),  # it does more than to make them
        (with_tensors(cpu_ms=0), (0.2 + 1 + 0.2) / 10),  # it waits, whatever it answers with
        (with_tensors(answer_bytes=2_000_000), (0.2 + 2 + 0.2) / 10),
        (with_tensors(answer_bytes=None), (0.2 + 3.8) / 10),
    ],
    ids=["small", "computed", "waited", "large", "of unknown size"],
)
def test_an_answer_of_one_tensor_takes_no_time_for_their_number(taken: Trace, ratio: float) -> None:
    found = forecast(taken, Change(kind="tensors", function="udf"))
    assert found.ratio == pytest.approx(ratio, rel=0.05)
    assert found.ratio_low < ratio < found.ratio_high
    assert found.condition == "if the tensors can be made as one"
    candidates = [candidate for candidate in candidates_of(taken) if candidate.kind == "tensors"]
    assert candidates == [Change(kind="tensors", function="udf", number=candidates[0].number)]


def test_a_request_of_one_tensor_takes_no_time_for_their_number() -> None:
    rows = [
        call(each, at, at + 10, served_ms=(at + 9, at + 9.8), cpu_ms=0, run_queue_ms=0,
             kind="rpc_sync", issued_ns=ns(at + 3), arrived_ns=ns(at + 7),
             unpickled_ns=ns(at + 9), request_tensors=1000, request_bytes=40_000, site="main.py:7")
        for each in range(20) for at in [10.0 * each]
    ]  # fmt: skip
    taken = trace(rows, window_ms=(0, 200), processes=ranks(host="here"))
    found = forecast(taken, Change(kind="tensors"))
    assert found.ratio == pytest.approx((0.1 + 0.24 + 0.8 + 0.2) / 10, rel=0.1)
    (candidate,) = (each for each in candidates_of(taken) if each.kind == "tensors")
    assert candidate == Change(kind="tensors", function="udf", site="main.py:7", number=1000)


@pytest.mark.parametrize(("number", "ms"), [(400, 3 * (1 + 2.9) + 3.1 + 2.2), (10, 3 + 6 + 2.2)])
def test_many_tensors_are_sent_one_after_another_where_calls_are_issued_together(
    number: int, ms: float
) -> None:
    """Of 6 ms on their way, half of all but 0.2 ms sends them, the rest receives them."""
    rows = [
        call(each, at, at + 9.2, served_ms=(at + 7, at + 9), cpu_ms=0, run_queue_ms=0,
             kind="rpc_sync", server_rank=1 + each % 3, issued_ns=ns(at + 1), request_bytes=9000,
             request_tensors=number, site="main.py:7")
        for each in range(60) for at in [9.2 * each + 5 * (each // 3)]
    ]  # fmt: skip
    taken = trace(rows, window_ms=(0, 652), processes=ranks(4, threads=16, host="here"))
    found = forecast(taken, Change(kind="together"))
    assert found.ratio == pytest.approx((ms + 5) / (3 * 9.2 + 5), rel=0.05)


def test_few_tensors_stay_as_they_are() -> None:
    taken = with_tensors(99)
    assert forecast(taken, Change(kind="tensors")).why_not
    assert "tensors" not in kinds(taken)


def candidates_of(taken: Trace) -> list[Change]:
    model = Model.of(taken)
    assert isinstance(model, Model), model
    return model.changeable.candidates()


def pushed(same: bool = True, first: int | None = None, **columns: Any) -> Trace:
    """The same large argument for three servers in each step, which takes 8 ms to pickle."""
    rows = []
    for number in range(30):
        at, server = 10.0 * number, number % 3 + 1
        of_step = number - number % 3 if first is None else first
        own = {"issued_ns": ns(at + 8), "request_bytes": 1_000_000, "request_tensors": 0,
               "server_rank": server,
               "same_as": of_step if same and number != of_step else None}  # fmt: skip
        rows.append(call(number, at, at + 10, served_ms=(at + 9, at + 9.5), cpu_ms=0,
                         run_queue_ms=0, kind="rpc_sync", site="main.py:9",
                         **own | columns))  # fmt: skip
    return trace(rows, window_ms=(0, 300), processes=ranks(4, host="here"))


def test_one_argument_for_several_servers_is_pickled_once() -> None:
    taken = pushed()
    found = forecast(taken, Change(kind="pickle-once"))
    assert found.ratio == pytest.approx((30 - 2 * (8 - 1.1)) / 30, rel=0.02)
    assert found.ratio_high > (30 - 8) / 30  # a copy may cost more than it seems
    (candidate,) = (each for each in candidates_of(taken) if each.kind == "pickle-once")
    assert candidate == Change(kind="pickle-once", function="udf", site="main.py:9", number=3)


@pytest.mark.parametrize("first", [0, -5], ids=["of the first step", "before this part"])
def test_an_argument_that_stays_in_all_steps_has_as_many_receivers(first: int) -> None:
    (candidate,) = (each for each in candidates_of(pushed(first=first))
                    if each.kind == "pickle-once")  # fmt: skip
    assert candidate.number == 3


@pytest.mark.parametrize(
    "taken",
    [pushed(same=False), pushed(request_bytes=1000), pushed(server_rank=1)],
    ids=["others", "small", "for one server"],
)
def test_other_arguments_are_pickled_for_each(taken: Trace) -> None:
    assert forecast(taken, Change(kind="pickle-once")).why_not
    assert "pickle-once" not in kinds(taken)


def fetched(times: int = 5, values: int = 8, overlap: float = 0.0) -> Trace:
    """Values that are fetched one after another, each several times, for 2 ms each time."""
    rows, at, number = [], 0.0, 0
    for _ in range(values):
        made = number
        rows.append(call(made, at, at + 3, served_ms=(at + 0.1, at + 2.9), cpu_ms=0,
                         run_queue_ms=0, kind="rpc_remote", function="make", same_as=None,
                         site="main.py:4"))  # fmt: skip
        at += 3.1
        for each in range(times):
            number += 1
            thread = 1 + each if overlap else 1
            rows.append(call(number, at, at + 2 + overlap, kind="to_here", body="fetch",
                             function="", same_as=made, site="main.py:5",
                             client_thread=thread))  # fmt: skip
            at += 2.1
        number += 1
    return trace(rows, window_ms=(0, at), processes=ranks(threads=16))


def test_a_value_is_fetched_once() -> None:
    taken = fetched()
    found = forecast(taken, Change(kind="fetch-once"))
    assert found.ratio == pytest.approx((3 + 2.1 + 4 * 0.1) / (3 + 5 * 2.1), rel=0.05)
    assert found.condition == "if the value does not change meanwhile"
    (candidate,) = (each for each in candidates_of(taken) if each.kind == "fetch-once")
    assert candidate == Change(kind="fetch-once", site="main.py:5", number=5)
    assert forecast(fetched(times=1, values=20), Change(kind="fetch-once")).why_not
