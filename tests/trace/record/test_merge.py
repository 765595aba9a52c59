from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from tests.trace.record.recordings import (
    MAIN,
    ONE_CLOCK,
    T0,
    client_span,
    complete,
    merged,
    operator,
    pair,
    recording,
    server_span,
)
from tuner.errors import TraceError
from tuner.trace.model.spans import ClientSpan, OperatorSpan, RankRecording, ServerSpan
from tuner.trace.record import merge as merge_module
from tuner.trace.record.clock import SAME_CLOCK, ClockOffset
from tuner.trace.record.merge import link, losses, merge, missing_spans

CALLS = [client_span(number) for number in range(4)]
SPANS = [server_span(call) for call in CALLS]


def test_both_ends_of_a_call_are_joined() -> None:
    call, *_, hanging = merged().calls
    assert (call.name, call.client_rank) == ("rpc_async#work(worker0 -> worker1)", 0)
    assert (call.span.start_ns, call.span.issued_ns, call.span.end_ns) == (100, 110, 200)
    assert call.served is not None
    assert (call.served.start_ns, call.served.end_ns, call.served.cpu_ns) == (120, 180, 50)
    assert (call.done_ns, call.link) == (190, "exact")
    assert (hanging.span.end_ns, hanging.span.status) == (None, "unfinished")
    assert hanging.served is not None
    assert (hanging.served.start_ns, hanging.served.end_ns) == (3120, None)


def test_operators_name_their_calls() -> None:
    assert [
        (each.rank, each.span.name, each.call_id, each.link) for each in merged().operators
    ] == [
        (1, "aten::mul", 0, "exact"),
        (1, "aten::empty", 0, "exact"),
        (1, "aten::add", 1, "inferred"),
        (1, "aten::set_", None, ""),  # the TorchScript function is no operator
    ]


def test_the_facts_describe_each_rank_and_what_a_complete_trace_lacks() -> None:
    facts = merged().facts
    assert facts.base_time_ns == T0 + 900  # an operator before the window
    assert facts.window_ns == (50, 4100)
    assert merged(10).facts.base_time_ns == T0 + 10
    first, second = facts.ranks
    assert (first.rank, first.name, first.pid) == (0, "worker0", MAIN)
    assert first.threads == ((MAIN, "main"),)
    assert (second.num_worker_threads, second.cpu_count, second.host) == (4, 2, "here")
    assert second.cpu_s == 0.5
    assert facts.losses == (
        "1 call of worker0 had no answer when the trace ended",
        "worker1 was still serving 1 call when the trace ended",
    )
    assert [*losses(pair(*CALLS))] == []
    spans = [server_span(call, run_queue_ns=None) for call in CALLS]
    assert [*losses(pair(*CALLS, server_spans=spans))] == [
        "the kernel under worker1 does not tell how long threads wait"
    ]


def test_a_server_without_a_free_thread_says_what_holds_them_and_what_waits() -> None:
    def frozen(threads: int) -> list[str]:
        busy = [
            client_span(n, function="infer", end_ns=None, status="unfinished") for n in range(4)
        ]
        # One whose time was over is still in the server's queue, one that was answered is not.
        late = client_span(4, function="infer", status="timed-out")
        waits = client_span(5, function="stop", end_ns=None, status="unfinished")
        done = client_span(6, function="infer")
        serving = [server_span(each, thread=20 + n, end_ns=None) for n, each in enumerate(busy)]
        first, second = pair(*busy, late, waits, done, server_spans=[*serving, server_span(done)])
        return [*losses([first, replace(second, num_worker_threads=threads)])]

    assert frozen(4)[-1] == (
        "worker1 was still serving 4 calls when the trace ended: all 4 threads were in infer, and "
        "2 more calls never began"
    )
    assert frozen(5)[-1] == "worker1 was still serving 4 calls when the trace ended"


def shifted(each: RankRecording, ns: int) -> RankRecording:
    """The recording of a process whose clock is this far ahead."""
    times = ("start_ns", "issued_ns", "end_ns")
    ahead: dict[str, Any] = {
        name: [
            span._replace(**{t: getattr(span, t) + ns for t in times if getattr(span, t, None)})
            for span in getattr(each, name)
        ]
        for name in ("client_spans", "server_spans", "operators")
    }
    return replace(each, **ahead, done_ns={call: at + ns for call, at in each.done_ns.items()})


@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_clocks_that_differ_make_no_difference(first_ns: int, second_ns: int) -> None:
    first, second = complete()
    offsets = {"worker0": ClockOffset(first_ns, 30), "worker1": ClockOffset(second_ns, 50)}
    recordings = [shifted(first, first_ns), shifted(second, second_ns)]
    trace = merge(recordings, offsets, (T0 + 950, T0 + 5000))
    expected = merged()
    assert (trace.calls, trace.operators) == (expected.calls, expected.operators)
    assert trace.facts == replace(expected.facts, clock_error_ns=80)


def test_the_clock_error_is_the_sum_of_the_two_largest() -> None:
    clocks = {f"worker{rank}": ClockOffset(5, error) for rank, error in enumerate((7, 40, 100))}
    ranks = [recording(rank) for rank in range(3)]
    assert merge(ranks, clocks, (0, 1)).facts.clock_error_ns == 140


def test_a_builtin_is_served_by_its_own_server_and_not_on_the_main_thread() -> None:
    call = client_span(0, body="builtin", function="aten::add", server=2, start_ns=0, end_ns=100)
    elsewhere = recording(1, operators=[operator(10, 20, "aten::add")])
    on_main = operator(30, 40, "aten::add", thread=MAIN + 2)
    server = recording(2, operators=[on_main, operator(50, 60, "aten::add")])
    trace = merge([recording(0, client_spans=[call]), elsewhere, server], ONE_CLOCK, (0, 100))
    assert [each.call_id for each in trace.operators] == [None, None, call.call_id]
    assert trace.calls[0].served == ServerSpan(call.call_id, 2001, 50, 60, None, None)


@pytest.mark.parametrize(
    ("rank", "fields", "missing"),
    [
        (0, {}, []),
        (0, {"client_spans": CALLS[1:]}, [
            "worker0 issued 4 python calls to worker1, but has 3 spans",
            "worker1 served 1 call without a client's span",
        ]),
        (1, {"server_spans": SPANS[1:]}, [
            "worker1 answered 1 call from worker0 without a server's span",
            "worker1 received 4 calls from rank 0, but has 3 spans",
        ]),
        # There are as many spans as calls, but one call has none.
        (1, {"server_spans": [SPANS[0], *SPANS[:3]]}, [
            "worker1 answered 1 call from worker0 without a server's span"
        ]),
        # The sums are equal, the parts are not.
        (0, {"issued": {("worker1", "python"): 3, ("worker2", "python"): 1,
                        ("worker1", "builtin"): 1}}, [
            "worker0 issued 1 builtin call to worker1, but has 0 spans",
            "worker0 issued 3 python calls to worker1, but has 4 spans",
            "worker0 issued 1 python call to worker2, but has 0 spans",
        ]),
        (1, {"arrived": {0: 3, 2: 1}}, [
            "worker1 received 3 calls from rank 0, but has 4 spans",
            "worker1 received 1 call from rank 2, but has 0 spans",
        ]),
    ],
)  # fmt: skip
def test_what_the_spans_lack(rank: int, fields: dict[str, Any], missing: list[str]) -> None:
    recordings = pair(*CALLS)
    recordings[rank] = replace(recordings[rank], **fields)
    assert missing_spans(recordings) == missing
    if missing:
        with pytest.raises(TraceError, match="the trace is incomplete: worker"):
            merge(recordings, ONE_CLOCK, (0, 9000))


@pytest.mark.parametrize(
    "fields",
    [{"body": "builtin"}, {"body": "script"}, {"body": "fetch"}, {"status": "raised"},
     {"status": "timed-out"}, {"status": "unfinished", "end_ns": None}],
)  # fmt: skip
def test_what_runs_without_python_or_fails_needs_no_server_span(fields: dict[str, Any]) -> None:
    client, server = recording(0, client_spans=[client_span(1, **fields)]), recording(1)
    assert missing_spans([client, server]) == []
    # It is counted nevertheless.
    body = fields.get("body", "python")
    assert missing_spans([replace(client, issued={}), server]) == [
        f"worker0 issued 0 {body} calls to worker1, but has 1 span"
    ]


# Links of operators to calls.

ADD, MM, SCRIPT = "aten::add", "aten::mm", "sc"


def builtin(number: int, start_ns: int, end_ns: int | None, function: str = ADD) -> ClientSpan:
    times: dict[str, Any] = {"start_ns": start_ns, "end_ns": end_ns}
    return client_span(number, body="builtin", function=function, **times)


@st.composite
def served_threads(draw: st.DrawFn) -> list[ServerSpan]:
    """Calls on up to three threads, one after another on each; at most the last has no end."""
    spans: list[ServerSpan] = []
    for thread in range(2001, 2001 + draw(st.integers(1, 3))):
        edges: list[int | None] = [*sorted(draw(st.sets(st.integers(0, 60), max_size=8)))]
        edges += [None] * (len(edges) % 2)
        for start_ns, end_ns in zip(edges[::2], edges[1::2], strict=True):
            spans.append(ServerSpan(100 + len(spans), thread, start_ns or 0, end_ns, 1, 0))
    return draw(st.permutations(spans))


@st.composite
def slots_and_calls(draw: st.DrawFn) -> tuple[list[OperatorSpan], list[ClientSpan]]:
    """Outermost operators of two names on three threads, of which on one thread none overlap; calls
    at arbitrary times, and for most operators a call that may have run it."""
    operators, found = [], []
    for thread in range(2001, 2004):
        edges = sorted(draw(st.sets(st.integers(0, 40), max_size=6)))
        for begun_ns, ended_ns in zip(edges[::2], edges[1::2], strict=False):
            name = draw(st.sampled_from([ADD, MM]))
            operators.append(operator(begun_ns, ended_ns, name, thread=thread))
    for number in range(draw(st.integers(0, 3))):
        start_ns = draw(st.integers(0, 40))
        end_ns = draw(st.none() | st.integers(start_ns, 45))
        found.append(builtin(number, start_ns, end_ns, draw(st.sampled_from([ADD, MM]))))
    for number, slot in enumerate(operators, start=10):
        if draw(st.integers(0, 4)):
            start_ns = slot.start_ns - draw(st.integers(0, 20))
            end_ns = slot.end_ns + draw(st.integers(0, 20))
            found.append(builtin(number, start_ns, end_ns, slot.name))
    return draw(st.permutations(operators)), draw(st.permutations(found))


OPERATORS = st.builds(
    lambda start_ns, ns, thread: operator(start_ns, start_ns + ns, thread=thread),
    st.integers(0, 70), st.integers(0, 5), st.integers(2001, 2003),
)  # fmt: skip


@given(served_threads(), st.lists(OPERATORS, max_size=12))
def test_linking_agrees_with_a_search_of_all_spans(
    spans: list[ServerSpan], operators: list[OperatorSpan]
) -> None:
    def owner(each: OperatorSpan) -> int | None:
        around = [
            span.call_id
            for span in spans
            if span.thread == each.thread
            and span.start_ns <= each.start_ns
            and (span.end_ns is None or each.start_ns < span.end_ns)
        ]
        assert len(around) <= 1
        return around[0] if around else None

    assert link(operators, spans, [], MAIN) == ([owner(each) for each in operators], {})


NAMED_SCRIPT = builtin(5, 10, 100, f"__torch__.a.b.{SCRIPT}")._replace(body="script")


@pytest.mark.parametrize(
    ("operators", "calls", "call_of"),
    [
        # What is inside of the builtin is of its call, but not what is right after it.
        ([(30, 80, ADD), (40, 50, "aten::to"), (42, 48, "aten::copy_"), (80, 85, "aten::set_")],
         [builtin(5, 10, 100)], [5, 5, 5, None]),
        # An operator that calls one of its own name is one slot.
        ([(30, 80, ADD), (30, 70, ADD), (35, 60, ADD)],
         [builtin(5, 10, 100), builtin(6, 10, 100)], [5, 5, 5]),
        # The add inside the script is no slot for the builtin.
        ([(30, 80, SCRIPT), (40, 50, ADD), (50, 60, MM)], [NAMED_SCRIPT, builtin(6, 10, 100)],
         [5, 5, 5]),
    ],
)  # fmt: skip
def test_operators_are_of_the_call_of_the_outermost_one(
    operators: list[tuple[int, int, str]], calls: list[ClientSpan], call_of: list[int | None]
) -> None:
    ran = [operator(*each, is_operator=each[2] != SCRIPT) for each in operators]
    served = {5: ServerSpan(5, 2001, 30, 80, None, None)}
    assert link(ran, [], calls, MAIN) == (call_of, served)


def fits(slot: OperatorSpan, call: ClientSpan) -> bool:
    return (
        slot.name == call.function
        and call.start_ns <= slot.start_ns
        and (call.end_ns is None or slot.end_ns <= call.end_ns)
    )


def most_pairs(operators: Sequence[OperatorSpan], calls: Sequence[ClientSpan]) -> int:
    if not operators or not calls:
        return 0
    allowed = csr_array([[fits(slot, call) for call in calls] for slot in operators])
    return int((maximum_bipartite_matching(allowed) >= 0).sum())


@given(slots_and_calls(), served_threads())
def test_as_many_slots_as_possible_have_a_call_and_none_has_two(
    drawn: tuple[list[OperatorSpan], list[ClientSpan]], spans: list[ServerSpan]
) -> None:
    operators, calls = drawn
    call_of, inferred = link(operators, [], calls, MAIN)
    by_id = {call.call_id: call for call in calls}
    linked = {call: slot for slot, call in zip(operators, call_of, strict=True) if call is not None}
    assert len(linked) == sum(call is not None for call in call_of) == most_pairs(*drawn)
    assert all(fits(slot, by_id[call]) for call, slot in linked.items())
    assert inferred == {
        call: ServerSpan(call, slot.thread, slot.start_ns, slot.end_ns, None, None)
        for call, slot in linked.items()
    }
    # Links of functions do not depend on builtins.
    alone, together = (link(operators, spans, each, MAIN)[0] for each in ([], calls))
    for before, after in zip(alone, together, strict=True):
        assert after == before or (before is None and after is not None and after < 100)


def many(start_ns: int, count: int, **fields: Any) -> list[OperatorSpan]:
    """Operators of 5 ns, one each 10 ns."""
    return [operator(start_ns + 10 * n, start_ns + 10 * n + 5, **fields) for n in range(count)]


def test_operators_are_left_out_from_the_same_time_on_in_all_ranks() -> None:
    """The server could record no more from T0 + 3000 on; the client recorded all."""
    calls = [
        client_span(n, start_ns=T0 + 1000 * n, body="builtin", function="aten::add")
        for n in range(1, 5)
    ]
    served = [operator(T0 + 1000 * n + 20, T0 + 1000 * n + 80, "aten::add") for n in range(1, 5)]
    client, server = pair(*calls, operators=served, operators_until_ns=T0 + 3000)
    client = replace(client, operators=many(T0 + 1000, 400, thread=MAIN))
    trace = merge([client, server], ONE_CLOCK, (T0 + 1000, T0 + 5000))
    assert trace.facts.operators_until_ns == 2000
    assert Counter(each.rank for each in trace.operators) == {0: 200, 1: 2}
    assert max(each.span.start_ns for each in trace.operators) < 2000
    # How a later call was served is not known, though its operator was recorded by chance.
    assert [call.link for call in trace.calls] == ["inferred", "inferred", "", ""]
    (said,) = trace.facts.losses
    assert said.startswith("only the first 202 operators are in the trace, those of 0.000002 s: ")
    assert said.endswith(" are left out, about 210 at that rate")  # 400 and twice 4, less 202


def test_of_all_ranks_together_no_more_operators_are_kept_than_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tuner.trace.record.merge.MOST_OPERATORS", 100)
    ranks = [recording(rank, operators=many(T0 + rank, 80)) for rank in range(2)]
    facts = (trace := merge(ranks, ONE_CLOCK, (T0, T0 + 800))).facts
    assert len(trace.operators) == 100
    assert facts.operators_until_ns == 500
    assert "about 60 at that rate" in facts.losses[0]
    fewer = [recording(rank, operators=many(T0 + rank, 50)) for rank in range(2)]
    facts = (trace := merge(fewer, ONE_CLOCK, (T0, T0 + 800))).facts
    assert (len(trace.operators), facts.operators_until_ns, facts.losses) == (100, None, ())


class CountedSpans(list[ClientSpan]):
    """Spans that count how many times one of them is looked at."""

    looked_at = 0

    def __iter__(self) -> Iterator[ClientSpan]:
        for span in super().__iter__():
            CountedSpans.looked_at += 1
            yield span


def test_twice_as_many_ranks_are_twice_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank calls the next one."""
    monkeypatch.setattr(merge_module, "_rebased", lambda each, *_: each)

    def work(size: int) -> int:
        names = [f"worker{rank}" for rank in range(size)]
        recordings = []
        for rank, name in enumerate(names):
            spans = CountedSpans([client_span(rank)._replace(server=names[rank - 1])])
            recordings.append(replace(recording(0), rank=rank, name=name, client_spans=spans))
        clocks = dict.fromkeys(names, SAME_CLOCK)
        CountedSpans.looked_at = 0
        assert len(merge(recordings, clocks, (T0, T0 + 1), may_lack_spans=True).calls) == size
        return CountedSpans.looked_at

    few, many = work(50), work(100)
    assert 0 < few < many < 3 * few
