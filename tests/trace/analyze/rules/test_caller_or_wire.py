from tests.trace.analyze.diagnosed import COMPUTE, said
from tests.trace.synthetic import Part, call, simulate, trace


def test_a_caller_that_does_other_things() -> None:
    said(
        simulate([Part("cpu", 1)], threads=4, at_once=1, think_ms=10, steps=20),
        "caller-or-wire",
        "The caller is the limit: worker1 was busy for 9 % of the time",
        "a call to it was under way for 11 %.",
    )


def test_a_long_way() -> None:
    said(
        simulate([Part("cpu", 0.1)], threads=4, at_once=1, way_ms=2, steps=20),
        "caller-or-wire",
        "The wire is the limit",
        "Of a call's 4.1 ms, 4 ms (98 %) were the way",
    )


def test_neither_alone() -> None:
    taken = simulate([Part("cpu", 1)], threads=4, at_once=1, way_ms=0.4, think_ms=1, steps=20)
    said(taken, "caller-or-wire", "The caller or the wire is the limit")


def test_a_server_busy_with_a_queue_now_and_then_is_the_callers_too() -> None:
    taken = simulate(COMPUTE, threads=1, at_once=4, think_ms=400)
    said(taken, "caller-or-wire", "The caller is the limit: worker1 was busy for 5 %")


def test_a_long_wait_for_a_future_is_not_the_wire() -> None:
    calls = [
        call(
            i,
            10 * i,
            10 * i + 9.9,
            served_ms=(10 * i + 0.1, 10 * i + 1),
            cpu_ms=0.9,
            run_queue_ms=0,
            done_ns=(10 * i + 9) * 1_000_000,
        )
        for i in range(20)
    ]
    said(trace(calls), "no-clear-limit", "its result was complete 8 ms later")
