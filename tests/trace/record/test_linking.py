from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.trace.record.recordings import client_span, operator
from tuner.trace.model.spans import ClientSpan, OperatorSpan, ServerSpan
from tuner.trace.record.merge import link

MAIN = 1001
ADD, MM, SCRIPT = "aten::add", "aten::mm", "sc"


def builtin(number: int, start_ns: int, end_ns: int | None, function: str = ADD) -> ClientSpan:
    return client_span(
        number, body="builtin", function=function, start_ns=start_ns, end_ns=end_ns
    )  # fmt: skip


def script(number: int, start_ns: int, end_ns: int) -> ClientSpan:
    return builtin(number, start_ns, end_ns)._replace(
        body="script", function=f"__torch__.a.b.{SCRIPT}"
    )


def served(call: int, thread: int, start_ns: int, end_ns: int | None) -> ServerSpan:
    return ServerSpan(call, thread, start_ns, end_ns, 1, 0)


def names(call_of: Sequence[int | None], operators: Sequence[OperatorSpan], call: int) -> list[str]:
    return [each.name for each, of in zip(operators, call_of, strict=True) if of == call]


# Operators inside Python functions.


@st.composite
def served_threads(draw: st.DrawFn) -> list[ServerSpan]:
    """Calls on up to three threads, one after another on each; at most the last has no end."""
    spans: list[ServerSpan] = []
    for thread in range(2001, 2001 + draw(st.integers(1, 3))):
        edges = sorted(draw(st.lists(st.integers(0, 60), max_size=8, unique=True)))
        for start_ns, end_ns in zip(edges[::2], edges[1::2], strict=False):
            spans.append(served(len(spans), thread, start_ns, end_ns))
        if len(edges) % 2:
            spans.append(served(len(spans), thread, edges[-1], None))
    return draw(st.permutations(spans))


@given(
    served_threads(),
    st.lists(
        st.builds(
            lambda start_ns, ns, thread: operator(start_ns, start_ns + ns, thread=thread),
            st.integers(0, 70),
            st.integers(0, 5),
            st.integers(2001, 2003),
        ),
        max_size=12,
    ),
)
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

    call_of, inferred = link(operators, spans, [], MAIN)
    assert call_of == [owner(each) for each in operators]
    assert inferred == {}


# Calls that run without Python on the server.


def test_a_builtin_is_served_by_the_operator_of_its_name_and_what_is_inside() -> None:
    operators = [
        operator(30, 80, ADD),
        operator(40, 50, "aten::to"),
        operator(42, 48, "aten::copy_"),
        operator(80, 85, "aten::set_"),  # right after it: of no call
    ]
    call_of, inferred = link(operators, [], [builtin(5, 10, 100)], MAIN)
    assert names(call_of, operators, 5) == [ADD, "aten::to", "aten::copy_"]
    assert call_of[3] is None
    assert inferred == {5: ServerSpan(5, 2001, 30, 80, None, None)}


def test_an_operator_that_calls_one_of_its_own_name_is_one_slot() -> None:
    operators = [operator(30, 80, ADD), operator(30, 70, ADD), operator(35, 60, ADD)]
    call_of, inferred = link(operators, [], [builtin(5, 10, 100), builtin(6, 10, 100)], MAIN)
    assert len(set(call_of)) == 1
    assert len(inferred) == 1
    (span,) = inferred.values()
    assert (span.start_ns, span.end_ns) == (30, 80)


def test_torchscript_is_known_by_the_last_part_of_its_name() -> None:
    operators = [
        operator(30, 80, SCRIPT, is_operator=False),
        operator(40, 50, ADD),
        operator(50, 60, MM),
    ]
    call_of, inferred = link(operators, [], [script(5, 10, 100), builtin(6, 10, 100)], MAIN)
    # The add inside the script is no slot for the builtin.
    assert names(call_of, operators, 5) == [SCRIPT, ADD, MM]
    assert list(inferred) == [5]


def most_pairs(allowed: list[set[int]]) -> int:
    """The size of a largest matching, by augmenting paths; `allowed` has the partners of each."""
    taken_by: dict[int, int] = {}

    def place(one: int, tried: set[int]) -> bool:
        for other in allowed[one] - tried:
            tried.add(other)
            if other not in taken_by or place(taken_by[other], tried):
                taken_by[other] = one
                return True
        return False

    return sum(place(one, set()) for one in range(len(allowed)))


@st.composite
def slots(draw: st.DrawFn) -> list[OperatorSpan]:
    """Outermost operators of two names on three threads; on one thread none overlap."""
    found = []
    for thread in range(2001, 2004):
        edges = sorted(draw(st.lists(st.integers(0, 40), max_size=6, unique=True)))
        for start_ns, end_ns in zip(edges[::2], edges[1::2], strict=False):
            name = draw(st.sampled_from([ADD, MM]))
            found.append(operator(start_ns, end_ns, name, thread=thread))
    return draw(st.permutations(found))


@st.composite
def waiting_calls(draw: st.DrawFn, around: Sequence[OperatorSpan]) -> list[ClientSpan]:
    """Calls at arbitrary times, and for most operators a call that may have run it."""
    found = []
    for number in range(draw(st.integers(0, 3))):
        start_ns = draw(st.integers(0, 40))
        end_ns = draw(st.none() | st.integers(start_ns, 45))
        found.append(builtin(number, start_ns, end_ns, draw(st.sampled_from([ADD, MM]))))
    for number, slot in enumerate(around, start=10):
        if draw(st.integers(0, 4)):
            start_ns = slot.start_ns - draw(st.integers(0, 20))
            end_ns = slot.end_ns + draw(st.integers(0, 20))
            found.append(builtin(number, start_ns, end_ns, slot.name))
    return draw(st.permutations(found))


slots_and_calls = slots().flatmap(lambda found: st.tuples(st.just(found), waiting_calls(found)))


def fits(slot: OperatorSpan, call: ClientSpan) -> bool:
    return (
        slot.name == call.function
        and call.start_ns <= slot.start_ns
        and (call.end_ns is None or slot.end_ns <= call.end_ns)
    )


@given(slots_and_calls)
def test_as_many_slots_as_possible_have_a_call_and_none_has_two(
    drawn: tuple[list[OperatorSpan], list[ClientSpan]],
) -> None:
    operators, calls = drawn
    call_of, inferred = link(operators, [], calls, MAIN)
    by_id = {call.call_id: call for call in calls}
    linked = [
        (slot, by_id[call])
        for slot, call in zip(operators, call_of, strict=True)
        if call is not None
    ]
    assert all(fits(slot, call) for slot, call in linked)
    assert len({call.call_id for _, call in linked}) == len(linked)  # no call has two slots
    assert inferred == {
        call.call_id: ServerSpan(call.call_id, slot.thread, slot.start_ns, slot.end_ns, None, None)
        for slot, call in linked
    }
    possible = [
        {place for place, call in enumerate(calls) if fits(slot, call)} for slot in operators
    ]
    assert len(linked) == most_pairs(possible)


@given(slots_and_calls, served_threads())
def test_links_of_functions_do_not_depend_on_builtins(
    drawn: tuple[list[OperatorSpan], list[ClientSpan]], spans: list[ServerSpan]
) -> None:
    operators, calls = drawn
    spans = [span._replace(call_id=span.call_id + 100) for span in spans]
    alone, _ = link(operators, spans, [], MAIN)
    together, _ = link(operators, spans, calls, MAIN)
    for before, after in zip(alone, together, strict=True):
        assert after == before or (before is None and after is not None and after < 100)
