"""The two ends of calls, within this process."""

import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.distributed.rpc import internal

from testing.known import known
from tuner.torch_private.answers import bytes_of, error_of
from tuner.torch_private.calls import CallTarget, name_in_pickles, pickled_plainly
from tuner.trace.model.spans import ServerSpan
from tuner.trace.record.client import Client, OpenCall
from tuner.trace.record.server import Served, Server, Serving, serving_now
from tuner.trace.record.threads import Thread, forget_threads, this_thread, threads
from tuner.trace.record.wire import Ends, OnTheWay, marked, received, request

ONES = torch.ones(2)
_SERIALIZE = internal._InternalRPCPickler.serialize
# PyTorch has no types for it.
PYTORCH: Any = internal


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """One that records, in a process whose agent PyTorch can ask who it is."""
    agent = SimpleNamespace(get_worker_info=lambda: "WorkerInfo(id=1, name=worker1)")
    monkeypatch.setattr(internal, "_get_current_rpc_agent", lambda: agent)
    found = Server()
    monkeypatch.setattr(Ends, "server", found)
    found.start()
    yield found
    found.stop()
    forget_threads()


Answered = list[tuple[int, str]]


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Answered:
    """The calls whose clients are told of an answer, and of what error."""
    found: Answered = []
    client = SimpleNamespace(
        answered=lambda call, value: found.append((call, error_of(value))),
        unpickled=lambda call, began_ns: None,
    )
    monkeypatch.setattr(Ends, "client", client)
    return found


def run(
    call_id: int, func: Callable[..., Any], *args: Any, plainly: bool = True, **named: Any
) -> Any:
    """What PyTorch gets from a function that it runs; not `plainly` for `remote`."""
    return PYTORCH._run_function(Served((call_id, plainly, func, (args, named))))


def test_a_call_that_ends_during_the_collection_is_collected_once(server: Server) -> None:
    assert run(7, max, 1, 2, plainly=False) == 2
    for native_id, call_id in ((99, 7), (98, 8)):
        thread = threads[native_id] = Thread(native_id)
        serving = Serving(server, call_id, True, thread, None, b"", 6, 0)
        thread.serving = partial(print, serving)
    spans = {span.call_id: span for span in server.spans()}
    assert len(server.spans()) == len(spans) == 2
    assert spans[7].end_ns is not None
    assert spans[8] == ServerSpan(8, 98, 6, None, None, None)


def fails() -> None:
    raise KeyError("shard 1")


@pytest.mark.parametrize("plainly", [True, False])
def test_a_thread_serves_nothing_after_a_function_that_raised(
    plainly: bool, server: Server
) -> None:
    answer = run(7, fails, plainly=plainly)
    assert error_of(answer) == "KeyError('shard 1')"
    assert this_thread().serving is None
    assert serving_now() == []
    (span,) = server.spans()
    assert (span.call_id, span.error) == (7, "KeyError: 'shard 1'")


@pytest.mark.parametrize("plainly", [True, False])
def test_one_that_would_end_the_process_is_over_when_its_thread_serves_the_next(
    plainly: bool, server: Server
) -> None:
    with pytest.raises(SystemExit):
        run(7, sys.exit, 3, plainly=plainly)
    run(8, max, 1, 2, plainly=plainly)
    assert serving_now() == []
    stopped, other = server.spans()
    assert (stopped.call_id, stopped.error) == (7, "BaseException")
    assert (other.call_id, other.error) == (8, "")


def test_after_a_nested_call_the_outer_one_is_being_served(server: Server) -> None:
    inside = []

    def outer() -> None:
        run(2, lambda: inside.append(this_thread().served_call))
        inside.append(this_thread().served_call)

    run(1, outer)
    assert inside == [2, 1]


def stack(**named: int) -> list[str]:
    del named
    return [frame.filename for frame in traceback.extract_stack()]


@pytest.mark.parametrize("named", [{}, {"number": 1}])
def test_no_frame_of_ours_is_below_a_function_or_in_its_traceback(
    named: dict[str, Any], server: Server
) -> None:
    """PyTorch's own frame is the one that called it."""
    here = __file__
    answer = run(7, stack, **named)
    found = pickle.loads(pickle.dumps(answer))
    assert found[-3:] == [here, internal.__file__, here]
    plain = PYTORCH._run_function(internal.PythonUDF(fails, (), {}))
    assert run(8, fails).msg == plain.msg


def test_what_a_call_brought_and_returned_is_not_kept_alive(server: Server) -> None:
    class Large:
        pass

    alive = sys.getrefcount(large := Large())
    answer = run(7, lambda value: value, large)
    pickled = pickle.dumps(answer_of_text := run(8, str, 5))
    del answer
    assert sys.getrefcount(large) == alive
    assert pickle.loads(pickled) == "5"
    del answer_of_text


# Pickles.


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("load", [pickle.loads, pickle._loads])  # type: ignore[attr-defined]
def test_a_pickle_with_a_mark_runs_what_the_program_pickled(
    protocol: int, load: Callable[[bytes], Any], server: Server
) -> None:
    """Also one of several frames, of each protocol, by both unpicklers."""
    value = [{"key": "x" * 70_000}, "y" * 100_000, ("z", "z")]
    pickled = pickle.dumps(internal.PythonUDF(max, (value, []), {}), protocol)
    udf = load(known(marked(pickled, 2**40 + 7, answers_plainly=True)))
    answer = udf.func(*udf.args, **udf.kwargs)
    assert server.arrivals == [2**40 + 7]
    assert load(pickle.dumps(answer)) == value
    assert [span.call_id for span in server.spans()] == [2**40 + 7]


def test_a_pickle_with_a_mark_is_the_programs_own_where_nothing_is_recorded() -> None:
    udf = internal.PythonUDF(max, (1, 2), {})
    assert pickle.loads(known(marked(pickle.dumps(udf), 7, answers_plainly=False))) == udf


def test_what_is_no_pickle_of_a_known_protocol_gets_no_mark() -> None:
    for other in (pickle.dumps([1], 0), b"", b"\x80\x04 encrypted"):
        assert marked(other, 7, answers_plainly=True) is None


def test_pickles_name_no_function_of_ours(server: Server) -> None:
    """Finding a function by its name would take most of the time to unpickle."""
    udf = internal.PythonUDF(max, (1, 2), {})
    sent = request(7, b"cbuiltins\nmax\n", pickle.dumps(((1, 2), {})))
    with_mark = known(marked(pickle.dumps(udf), 7, answers_plainly=True))
    answer = pickle.dumps(OnTheWay((received, (7, 3), None, iter(()))))
    error = pickle.dumps(run(7, fails), protocol=4)
    assert b"tuner" not in sent + with_mark + answer + error
    assert pickle.loads(answer) == 3


@pytest.mark.parametrize(
    "value", [None, True, 2**70, 0.5, torch.ones(2), torch.nn.Parameter(torch.ones(2)), "text", [1]]
)
def test_an_answer_is_what_pytorch_sends_without_recording(
    value: Any, server: Server, answered: Answered
) -> None:
    pickled, tensors = PYTORCH.serialize(run(2**40, lambda: value))
    assert len(tensors) == isinstance(value, torch.Tensor)
    found = PYTORCH.deserialize(pickled, tensors)
    assert (type(found), str(found)) == (type(value), str(value))
    assert answered == [(2**40, "")]


def test_what_else_a_thread_pickles_before_an_answer_is_pickled_plainly(server: Server) -> None:
    answer = run(7, max, 1, 2)
    assert pickle.loads(PYTORCH.serialize(["of a finalizer"])[0]) == ["of a finalizer"]
    assert pickle.loads(PYTORCH.serialize(answer)[0]) == 2


def test_an_answer_is_pickled_plainly_where_recording_paused_before_the_last_one(
    server: Server,
) -> None:
    this_thread().answers_quickly = True
    pickled, tensors = PYTORCH.serialize(run(7, list, [ONES]))
    assert len(tensors) == 1
    assert str(PYTORCH.deserialize(pickled, tensors)) == str([ONES])


def test_an_answer_is_sent_where_recording_has_ended_meanwhile(server: Server) -> None:
    answer = run(7, max, 1, 2)
    server.stop()
    assert type(internal._internal_rpc_pickler).__dict__.get("serialize") is _SERIALIZE
    assert pickle.loads(PYTORCH.serialize(answer)[0]) == 2


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1, "text", fails), {"key": None}),
        ((ONES, [ONES, (ONES, 2.5)]), {}),
        ((1,), {"tensors": {"w": ONES}}),
        (("x" * 70_000, ["y" * 70_000, ONES]), {}),
        ((), {}),
    ],
)
def test_a_request_has_what_pytorchs_own_has(args: Any, kwargs: Any, server: Server) -> None:
    values, tensors = pickled_plainly(args, kwargs)
    plain, of_plain = PYTORCH.serialize(internal.PythonUDF(fails, args, kwargs))
    assert tensors == of_plain
    served = PYTORCH.deserialize(request(7, known(name_in_pickles(fails)), values), tensors)
    expected = PYTORCH.deserialize(plain, of_plain)
    assert isinstance(served, Served)
    assert served[:3] == (7, True, fails)
    assert str(served[3]) == str(expected[1:])


@torch.no_grad()
def wrapped() -> None:
    pass


@pytest.mark.parametrize("func", [fails, wrapped, Server.start, isinstance])
def test_a_function_is_named_as_pickle_names_it(func: Any) -> None:
    name = known(name_in_pickles(func))
    assert pickle.loads(pickle.PROTO + b"\x04" + name + pickle.STOP) is func


def test_a_function_that_is_not_found_by_its_name_is_left_to_pytorch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch raises for it."""
    before = fails
    monkeypatch.setattr(sys.modules[__name__], "fails", stack)
    assert name_in_pickles(before) is None
    assert name_in_pickles(lambda: None) is None


def test_an_answer_that_takes_long_to_pickle_says_when_it_is_pickled(server: Server) -> None:
    class Slow:
        def __reduce__(self) -> tuple[Any, ...]:
            time.sleep(0.01)
            return int, ()

    for call_id, value in ((1, 3), (2, Slow())):
        pickle.dumps(run(call_id, lambda value: value, value))
    quick, slow = server.spans()
    assert quick.answered_ns is None
    assert known(slow.answered_ns) - known(slow.end_ns) >= 10_000_000


def test_an_answer_says_how_many_tensors_it_has_and_how_large_they_are(server: Server) -> None:
    value = [torch.ones(2, 3) for _ in range(5000)]
    PYTORCH.serialize(run(7, lambda: value))
    (span,) = server.spans()
    assert (span.answer_tensors, span.answer_bytes) == (5000, 5000 * 24)


class Watched(torch.Tensor):
    """Its own code fails the call that it runs in."""

    @classmethod
    def __torch_function__(cls, *arguments: Any) -> Any:
        raise RuntimeError("looked at")


class Failing:
    """As tensors do whose sizes a program makes up."""

    layout = torch.strided

    @property
    def nbytes(self) -> int:
        raise RuntimeError("it has none")


def test_to_count_bytes_runs_no_code_of_a_program_and_fails_no_call() -> None:
    assert bytes_of([ONES.as_subclass(Watched), ONES, Failing()]) == 16


def test_the_tensors_of_a_quick_answer_are_not_looked_at(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []

    def looks(tensors: Any) -> int:
        looked.extend(tensors)
        return 0

    monkeypatch.setattr("tuner.torch_private.answers.bytes_of", looks)
    monkeypatch.setattr("tuner.trace.record.server.QUICKLY_PICKLED_NS", 10**10)
    PYTORCH.serialize(run(7, lambda: [ONES]))
    assert not looked
    monkeypatch.setattr("tuner.trace.record.server.QUICKLY_PICKLED_NS", 0)
    PYTORCH.serialize(run(8, lambda: [ONES]))
    assert len(looked) == 1


@pytest.mark.parametrize(
    ("other", "is_same"),
    [(b"x" * 70_000, True), (b"x" * 70_001, False), (b"x" * 35_000 + b"y" * 35_000, False)],
    ids=["the same", "of another length", "of other bytes"],
)
def test_a_large_request_names_an_earlier_one_that_is_the_same(other: bytes, is_same: bool) -> None:
    client = Client(0)
    target = CallTarget("rpc_sync", "push", "worker1", 1)
    calls = [OpenCall(0, target) for _ in range(3)]
    for call, pickled in zip(calls, (b"x" * 70_000, other, b"x" * 60_000), strict=True):
        client.packed(call, pickled, [])
    first, second, small = calls
    assert (first.same_as, small.same_as) == (None, None)
    assert second.same_as == (first.call_id if is_same else None)
    client.packed(small, b"x" * 70_000, [torch.ones(2)])
    assert (small.same_as, small.request_tensors) == (None, 1)
    assert small.request_bytes == 70_008


def slowly() -> int:
    time.sleep(0.01)
    return 3


class Slow:
    """Takes 10 ms to unpickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return slowly, ()


@pytest.mark.parametrize("size", [1, 10_000])
def test_a_long_request_says_when_it_began_to_be_unpickled(size: int, server: Server) -> None:
    arguments = (("x" * size, Slow()),)
    sent = request(7, b"cbuiltins\nhash\n", pickle.dumps((arguments, {})))
    udf = internal.PythonUDF(hash, arguments, {})
    with_mark = known(marked(pickle.dumps(udf), 8, answers_plainly=True))
    for each in (sent, with_mark):
        began_ns = time.time_ns()
        found = pickle.loads(each)
        next(*found.args)
        span = server.spans()[-1]
        if size == 1:
            assert span.arrived_ns is None
        else:
            assert began_ns <= known(span.arrived_ns) <= known(span.unpickled_ns) - 10_000_000


def test_an_answer_that_takes_long_to_unpickle_says_when_that_began(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[tuple[int, int]] = []
    client = SimpleNamespace(
        answered=lambda call, value: None, unpickled=lambda *each: began.append(each)
    )
    monkeypatch.setattr(Ends, "client", client)
    pickled, tensors = PYTORCH.serialize(run(7, lambda: [Slow(), torch.ones(2)]))
    before_ns = time.time_ns()
    PYTORCH.deserialize(pickled, tensors)
    ((call, began_ns),) = began
    assert call == 7
    assert before_ns <= began_ns <= time.time_ns() - 10_000_000


def test_an_exception_notifies_its_client_where_it_is_unpickled(
    server: Server, answered: Answered
) -> None:
    """Also the same exception, pickled again by the program, notifies nobody."""
    answer = run(7, fails)
    for _ in range(2):
        arrived = PYTORCH.deserialize(*PYTORCH.serialize(answer))
        assert arrived == answer
    assert answered == [(7, "KeyError('shard 1')")]
