"""Planted traces in which a knob of the process would help, and their likes in which none would."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.trace.analyze.diagnosed import waits_for_a_cpu
from tests.trace.synthetic import Part, call, operator, ranks, simulate, trace
from tuner.plan.knobs import KNOBS
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.model.trace import Trace

MAIN = 77


def suggested(taken: Trace) -> tuple[str, ...]:
    """The knobs; each is named with its flag in the text, too, and its values can be searched."""
    found = diagnose(taken)
    for each in found.suggestions:
        assert f"--space {each.knob}={each.values} tries it." in found.text
        knob = KNOBS[each.knob]
        assert knob.default in [knob.read(value) for value in each.values.split(",")]
    return tuple(each.knob for each in found.suggestions)


def with_mains(taken: Trace, *computes: float, run_queue: float = 0.0) -> Trace:
    """The main thread of each rank, the first ones first, is on the CPU for such a share."""
    seconds = (taken.window_ns[1] - taken.window_ns[0]) / 1e9
    processes = [
        replace(rank, pid=MAIN + rank.rank, main_cpu_s=share * seconds,
                main_run_queue_s=run_queue * seconds)
        for rank, share in zip(taken.ranks, computes, strict=True)
    ]  # fmt: skip
    return replace(taken, ranks=tuple(processes))


def one_by_one(
    *, there: float, served: float = 0.1, on_cpu: float = 0.1, **columns: Any
) -> list[dict[str, Any]]:
    """40 calls of 10 ms that take so many ms to begin, and so many to be served."""
    return [
        call(
            i, 10 * i, 10 * i + 10, served_ms=(10 * i + there, 10 * i + there + served),
            cpu_ms=on_cpu, run_queue_ms=0, **columns,
        )
        for i in range(40)
    ]  # fmt: skip


def taken_of(calls: Sequence[dict[str, Any]], *operators: dict[str, Any]) -> Trace:
    return trace(calls, operators, processes=ranks(), window_ms=(0, 400))


def test_calls_that_wait_for_the_gil_of_a_rank_that_computes() -> None:
    found = diagnose(with_mains(taken_of(one_by_one(there=6)), 0, 0.9))
    assert [each.knob for each in found.suggestions] == ["switch_interval"]
    assert (
        "Calls wait for the GIL of worker1: 100 % of them took 4 ms or more to begin though a "
        "thread was free, and its main thread was on the CPU for 90 % of the time and waited for a "
        "free one for 0 %. The knob switch_interval may help; --space "
        "switch_interval=5ms,1ms,0.2ms tries it."
    ) in found.text


def test_a_knob_that_may_help_with_two_limits_is_named_once() -> None:
    taken = with_mains(taken_of(one_by_one(there=4.5, served=4)), 0, 0.9)
    found = diagnose(taken)
    assert {each.kind for each in found.limits} == {"wire", "off_cpu"}
    assert found.text.count("switch_interval may help") == len(found.suggestions) == 1


@pytest.mark.parametrize(
    ("calls", "computes"),
    [
        pytest.param(one_by_one(there=6), 0.1, id="the server is idle"),
        pytest.param(one_by_one(there=0.1, served=9.8), 0.9, id="sleeps, and the main thread not"),
        pytest.param(one_by_one(there=2), 0.9, id="the GIL is given up sooner"),
        pytest.param(one_by_one(there=6, request_bytes=1_000_000), 0.9, id="much data"),
        pytest.param(
            [*one_by_one(there=6)[:7], *one_by_one(there=0.1)[7:]], 0.9, id="few of the calls"
        ),
        pytest.param(
            [*one_by_one(there=6)[:29], *one_by_one(there=2)[29:]], 0.9, id="waits of any length"
        ),
    ],
)
def test_what_a_shorter_switch_interval_does_not_help(
    calls: list[dict[str, Any]], computes: float
) -> None:
    assert suggested(with_mains(taken_of(calls), 0, computes)) == ()


def test_operators_of_the_main_thread_release_the_gil() -> None:
    calls = one_by_one(there=6)

    def in_operators(ms: float) -> Trace:
        ran = [
            operator("aten::mm", 10 * i, 10 * i + ms, rank=1, thread=MAIN + 1) for i in range(40)
        ]
        return with_mains(taken_of(calls, *ran), 0, 0.9)

    assert suggested(in_operators(8)) == ()
    assert suggested(in_operators(2)) == ("switch_interval",)
    assert suggested(in_operators(0.02)) == ("switch_interval",)


def test_a_main_thread_that_may_have_computed_before_the_first_call_only() -> None:
    taken = with_mains(taken_of(one_by_one(there=6)), 0, 1.0)
    longer = replace(taken, window_ns=(-400_000_000, 400_000_000))
    assert suggested(longer) == ()


@pytest.mark.parametrize(
    ("part", "threads", "rule"),
    [
        (Part("lock", 5), 4, "gil-or-lock"),
        (Part("lock", 5), 16, "gil-or-lock"),
        (Part("sleep", 10), 1, "blocked-threads"),
        (Part("cpu", 5), 8, "cpus-full"),
    ],
)
def test_calls_that_wait_for_something_else(part: Part, threads: int, rule: str) -> None:
    """The main thread computes, all CPUs are in use, and neither is what they wait for."""
    taken = simulate([part], threads=threads, at_once=8, cpus=2)
    seconds = (taken.window_ns[1] - taken.window_ns[0]) / 1e9
    processes = [replace(rank, cpu_s=seconds) for rank in taken.ranks]
    busy = with_mains(replace(taken, ranks=tuple(processes)), 0, 0.9)
    assert diagnose(busy).rule == rule
    assert suggested(busy) == ()


def test_ranks_that_hold_the_cpus_of_a_server_that_needs_no_more_than_its_share() -> None:
    found = diagnose(waits_for_a_cpu(0.12, cpu_s=1.0))
    assert [each.knob for each in found.suggestions] == ["cpu_binding"]
    assert (
        "2 of 2 logical CPUs are in use by the ranks, and worker1 does not get its share of them. "
        "The knob cpu_binding may help; --space cpu_binding=none,equal tries it."
    ) in found.text
    assert suggested(waits_for_a_cpu(0.12, cpu_s=0.8)) == ()


def test_a_driver_that_is_ready_and_waits_for_a_cpu() -> None:
    """What it waits for lies on the way of its calls: to wake, a thread needs a CPU."""
    calls = one_by_one(there=3, client_thread=MAIN)
    processes = ranks(cpu_count=2, cpu_s=0.4)
    taken = trace(calls, processes=processes, window_ms=(0, 400))
    assert suggested(with_mains(taken, 0.2, 0, run_queue=0.2)) == ("cpu_binding",)
    assert suggested(with_mains(taken, 0.2, 0, run_queue=0.05)) == ()
    idle = replace(taken, ranks=ranks(cpu_count=2, cpu_s=0.2))
    assert suggested(with_mains(idle, 0.2, 0, run_queue=0.2)) == ()


def test_too_few_cpus_for_a_share_of_each_rank_that_polls() -> None:
    taken = waits_for_a_cpu(0.12, cpu_s=0.7)
    crowd = replace(taken, ranks=ranks(3, threads=1, cpu_count=2, cpu_s=0.7))
    found = diagnose(crowd)
    assert [each.knob for each in found.suggestions] == ["transports"]
    assert "1.4 logical CPUs by threads that neither serve calls nor are a main" in found.text
    assert suggested(crowd) == ("transports",)
    # Two of them compute: no transport gives their CPUs back.
    computing = replace(crowd, window_ns=(0, 1_000_000_000))
    assert suggested(with_mains(computing, 0.6, 0, 0.6)) == ()
