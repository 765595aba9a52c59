import pytest

from testing.synthetic import call, trace
from tuner.trace.analyze.server_evidence import gather
from tuner.trace.model.spans import TraceRank


def test_time_spent_waiting_for_overlapping_calls_counts_once() -> None:
    calls = [call(i, 10 * i, 10 * i + 10, served_ms=(10 * i, 10 * i + 10)) for i in range(10)]
    inner = [
        call(100 + i, 2 + i, 5 + i, parent_call=0, client_rank=1, server_rank=2) for i in (0, 1)
    ]
    beyond = call(200, 98, 130, kind="rpc_sync", parent_call=9, client_rank=1, server_rank=2)
    numbers = gather(trace([*calls, *inner, beyond]), 1)
    assert numbers.nested_share == pytest.approx((4 + 2) / 100)


def test_only_processes_of_the_servers_machine_use_its_cpus() -> None:
    def cpus_used(hosts: list[str], cpu_s: list[float | None]) -> float | None:
        processes = tuple(
            TraceRank(rank=rank, name=f"worker{rank}", host=host, cpu_s=used)
            for rank, (host, used) in enumerate(zip(hosts, cpu_s, strict=True))
        )
        served = [call(1, 0, 1000, served_ms=(0, 1000))]
        return gather(trace(served, processes=processes), 1).host_cpus_used

    assert cpus_used(["a", "a", "b"], [0.5, 1.0, 4.0]) == 1.5
    assert cpus_used(["b", "a", "b"], [0.5, 1.0, None]) == 1.0
    assert cpus_used(["a", "a", "b"], [None, 1.0, 4.0]) is None
