"""Traced worlds of the local launcher: the recipe's workload on real ranks."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testing.fakes import order
from testing.outcomes import failed, measured
from tests.trace.perfetto_rules import broken_rules
from tests.trace.record.conftest import SeenTrace
from tests.trace.record.served import operators_of
from tests.world.launcher_contract import TROUBLES
from tuner.world.launcher import TraceOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from workloads.udf import num_workers_udf_with_ops

pytestmark = [pytest.mark.world, pytest.mark.thorough]

STEPS, CALLS = 100, 4
SIZE, ROUNDS = 20, 10
KEY = "rpc_async#num_workers_udf_with_ops(worker0 -> worker1)"


def run_traced(path: Path, workload: str, operators: bool, **ordered: Any) -> Measurement | Failure:
    options = {"calls": CALLS, "size": SIZE, "rounds": ROUNDS} if workload == "udf" else {}
    with LocalLauncher() as launcher:
        plain = order(launcher.describe(workload, options), **ordered)
        return launcher.run(replace(plain, trace=TraceOrder(path=path, operators=operators)))


@pytest.mark.parametrize("threads", [1, 8])
def test_a_world_is_traced_in_full(tmp_path: Path, threads: int) -> None:
    """The recipe's four calls in parallel, 100 times."""
    path = tmp_path / "trace.json"
    found = measured(run_traced(path, "udf", operators=True, threads=threads, steps=STEPS))
    trace = SeenTrace(path)
    frames, calls = trace.frames, trace.calls
    assert broken_rules(trace.document) == trace.facts["losses"] == []
    assert [rank.num_worker_threads for rank in frames.ranks] == [threads] * 2
    # A workload's operators run on one thread unless it says otherwise.
    assert [(rank.intra_op_threads, rank.pool_cpu_s) for rank in frames.ranks] == [(1, 0.0)] * 2
    assert {rank.switch_interval_s for rank in frames.ranks} == {0.005}
    assert len(found.step_s) == frames.steps == STEPS
    # The window contains the steps and little else.
    opened, closed = frames.window_ns
    assert 0 < found.wall_s <= (closed - opened) / 1e9 < found.wall_s + 2
    assert found.tracing_overhead == frames.tracing_overhead
    assert 0 < (found.tracing_overhead or 0) < 100
    # Each step has all of its calls, and each call all of its operators.
    assert trace.names() == {KEY: STEPS * CALLS}
    assert {(call.status, call.link) for call in calls} == {("ok", "exact")}
    assert len({call.server_thread for call in calls}) <= threads
    for first in range(CALLS, len(calls), CALLS):
        assert max(call.end_ns for call in calls[first - CALLS : first]) <= calls[first].start_ns
    each_call = operators_of(num_workers_udf_with_ops, SIZE, ROUNDS, 0)
    assert each_call["aten::mul"] == ROUNDS
    assert all(Counter(operator.name for operator in call.operators) == each_call for call in calls)
    loose = {operator.name for operator in trace.operators if operator.call_id is None}
    assert not loose & {"aten::mul", "aten::add", "aten::relu", "aten::sigmoid"}


def test_no_trace_is_written_of_a_world_that_cannot_be_traced(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    outcome = run_traced(path, f"{TROUBLES}:TracesItself", operators=False, threads=2, steps=5)
    assert failed(outcome).failure == "trace-failed"
    assert not path.exists()
