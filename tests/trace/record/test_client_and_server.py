"""The two ends of calls, within this process."""

import pickle

import pytest
from torch.distributed.rpc import api

from tuner.torch_private.calls import CallTarget, time_limit_s
from tuner.trace.model.spans import ServerSpan
from tuner.trace.record import server as server_module
from tuner.trace.record.server import Server
from tuner.trace.record.threads import Thread, forget_threads, serving_threads, this_thread
from tuner.trace.record.wire import Answer, Request


def test_a_call_that_ends_during_the_collection_is_collected_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server()
    assert server.serve(7, max, (1, 2), {}) == 2
    late = Thread(99)
    late.serving = (7, 5)
    other = Thread(98)
    other.serving = (8, 6)
    monkeypatch.setattr(server_module, "serving_threads", lambda: [late, other])
    spans = {span.call_id: span for span in server.spans()}
    assert len(server.spans()) == len(spans) == 2
    assert spans[7].end_ns is not None
    assert spans[8] == ServerSpan(8, 98, 6, None, None, None)


def test_a_thread_serves_nothing_after_a_function_that_raised() -> None:
    server = Server()
    with pytest.raises(ZeroDivisionError):
        server.serve(7, divmod, (1, 0), {})
    assert this_thread().serving is None
    assert serving_threads() == []
    assert server.pending == 0
    assert [span.call_id for span in server.spans()] == [7]
    forget_threads()


def test_after_a_nested_call_the_outer_one_is_being_served() -> None:
    server = Server()
    inside = []

    def outer() -> None:
        server.serve(2, lambda: inside.append(this_thread().serving), (), {})
        inside.append(this_thread().serving)

    server.serve(1, outer, (), {})
    assert [service[0] for service in inside if service] == [2, 1]
    forget_threads()


def test_the_time_limit_is_the_calls_own_or_else_the_current_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = iter([60.0, 0.2])
    monkeypatch.setattr(api, "get_rpc_timeout", lambda: next(limits))
    target = CallTarget("rpc_sync", "f", "worker1", 1)
    assert time_limit_s(target._replace(timeout_s=3.0)) == 3.0
    assert [time_limit_s(target), time_limit_s(target)] == [60.0, 0.2]


def test_pickles_name_no_function_of_ours() -> None:
    """Finding a function by its name would take most of the time to unpickle."""
    for travels in (Request(7, max, (1, 2), {}), Answer(7, 3)):
        assert b"tuner" not in pickle.dumps(travels)
    assert pickle.loads(pickle.dumps(Answer(7, 3))) == 3
