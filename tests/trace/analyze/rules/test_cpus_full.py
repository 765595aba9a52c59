from dataclasses import replace

from tests.trace.analyze.diagnosed import COMPUTE, said, waits_for_a_cpu
from tests.trace.synthetic import Part, simulate
from tuner.trace.analyze.diagnosis_rules import taken_by_others
from tuner.trace.analyze.server_evidence import Evidence, gather


def test_threads_wait_for_a_cpu() -> None:
    said(
        simulate([Part("cpu", 0.1)] * 30, threads=8, at_once=8, cpus=2),
        "cpus-full",
        "ran, with a parallelism of 7.9, used 2 of 2 logical CPUs and waited for a free one for 75",
        "more threads do not help",
    )


def test_as_many_threads_as_cpus_fill_them_without_waiting() -> None:
    said(simulate(COMPUTE, threads=2, at_once=8, cpus=2), "cpus-full", "2 of 2 logical CPUs")


def test_other_processes_fill_them() -> None:
    said(waits_for_a_cpu(0.12, cpu_s=0.8), "calls")
    said(
        waits_for_a_cpu(0.12, cpu_s=1.0),
        "cpus-full",
        "All processes of the trace used 2 of 2 logical CPUs",
        "the shm transport polls on one in each process.",
    )


def test_other_programs_fill_them() -> None:
    said(
        waits_for_a_cpu(0.4, cpu_s=0.4),
        "cpus-full",
        "used 0.6 of 2 logical CPUs and waited for a free one for 40 % of their time",
        "All processes of the trace used 0.8 of 2 logical CPUs: other programs, or a limit",
    )


def test_what_the_trace_s_own_processes_may_have_used_is_not_put_down_to_others() -> None:
    """The server is busy for half of the window: its processes may have used all CPUs then."""

    def half_busy(cpu_s: float) -> Evidence:
        found = gather(waits_for_a_cpu(0.4, cpu_s=cpu_s), 1)
        return replace(found, use=replace(found.use, busy_fraction=0.5))

    assert taken_by_others(half_busy(0.5)) == ()
    (text,) = taken_by_others(half_busy(0.4))
    assert "used 0.8 of 2 logical CPUs: other programs, or a limit on CPU time" in text


def test_a_wait_for_a_cpu_that_is_not_the_longer_wait_is_not_the_limit() -> None:
    said(waits_for_a_cpu(0.25), "cpus-full")
    said(waits_for_a_cpu(0.25, off=0.4), "calls")
