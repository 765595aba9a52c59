"""Traced worlds of the local launcher: the recipe's workload on real ranks."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import order
from tests.trace.perfetto_rules import broken_rules
from tests.trace.record.seen_trace import SeenTrace
from tests.trace.record.served import operators_of
from tuner.world.launcher import TraceOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Failure, Measurement
from workloads.udf import num_workers_udf_with_ops

pytestmark = [pytest.mark.world, pytest.mark.thorough]

STEPS = 100
CALLS = 4
SIZE, ROUNDS = 20, 10
KEY = "rpc_async#num_workers_udf_with_ops(worker0 -> worker1)"


@dataclass(frozen=True, kw_only=True)
class TracedWorld:
    """A world that was traced, and its file."""

    threads: int
    measurement: Measurement
    trace: SeenTrace


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    with LocalLauncher() as running:
        yield running


def run_traced(
    launcher: LocalLauncher,
    path: Path,
    *,
    workload: str = "udf",
    options: dict[str, object] | None = None,
    operators: bool = True,
    **ordered: Any,
) -> Measurement | Failure:
    plain = order(launcher.describe(workload, options or {}), **ordered)
    return launcher.run(replace(plain, trace=TraceOrder(path=path, operators=operators)))


@pytest.fixture(scope="module", params=[1, 8])
def world(
    request: pytest.FixtureRequest,
    launcher: LocalLauncher,
    tmp_path_factory: pytest.TempPathFactory,
) -> TracedWorld:
    """The recipe's four calls in parallel, 100 times, with 1 and with 8 threads."""
    path = tmp_path_factory.mktemp("traces") / "folder of its own" / "trace.json"
    outcome = run_traced(
        launcher,
        path,
        options={"calls": CALLS, "size": SIZE, "rounds": ROUNDS},
        threads=request.param,
        steps=STEPS,
    )
    assert isinstance(outcome, Measurement), outcome
    return TracedWorld(threads=request.param, measurement=outcome, trace=SeenTrace(path))


def test_the_steps_ordered_are_the_steps_traced(world: TracedWorld) -> None:
    measured, frames = world.measurement, world.trace.frames
    assert len(measured.step_s) == STEPS
    assert frames.steps == STEPS
    opened, closed = frames.window_ns
    # The window contains the steps and little else.
    assert 0 < measured.wall_s <= (closed - opened) / 1e9 < measured.wall_s + 2
    assert measured.tracing_overhead == frames.tracing_overhead
    assert 0 < (measured.tracing_overhead or 0) < 100
    assert [rank.num_worker_threads for rank in frames.ranks] == [world.threads] * 2
    assert 1 <= len({call.server_thread for call in world.trace.calls}) <= world.threads
    assert broken_rules(world.trace.document) == []


def test_four_calls_in_each_step_are_four_calls(world: TracedWorld) -> None:
    trace = world.trace
    assert trace.names() == {KEY: STEPS * CALLS}
    assert trace.facts["losses"] == []
    assert all((call.status, call.link) == ("ok", "exact") for call in trace.calls)
    steps = [trace.calls[first : first + CALLS] for first in range(0, len(trace.calls), CALLS)]
    for step, following in pairwise(steps):
        assert all(
            call.end_ns is not None and call.end_ns <= following[0].start_ns for call in step
        )


def test_each_operator_is_recorded_as_often_as_it_ran(world: TracedWorld) -> None:
    each_call = operators_of(num_workers_udf_with_ops, SIZE, ROUNDS, 0)
    assert each_call["aten::mul"] == ROUNDS
    trace = world.trace
    for call in trace.calls:
        assert Counter(each.name for each in call.operators) == each_call
    linked = Counter(each.name for each in trace.operators if each.call_id is not None)
    assert linked == {name: STEPS * CALLS * count for name, count in each_call.items()}
    # None of them is without a call.
    loose = {each.name for each in trace.operators if each.call_id is None}
    assert not loose & {"aten::mul", "aten::add", "aten::relu", "aten::sigmoid"}


def test_spans_alone_over_sockets(launcher: LocalLauncher, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    outcome = run_traced(
        launcher, path, threads=2, steps=5, operators=False, transports=["uv"]
    )  # fmt: skip
    assert isinstance(outcome, Measurement), outcome
    trace = SeenTrace(path)
    assert trace.names() == {KEY: 5 * CALLS}
    assert trace.operators == []
    assert broken_rules(trace.document) == []


@pytest.mark.parametrize(
    ("trouble", "failure"), [("Exits", "crashed"), ("TracesItself", "trace-failed")]
)
def test_no_trace_is_written_of_a_world_that_fails(
    launcher: LocalLauncher, tmp_path: Path, trouble: str, failure: str
) -> None:
    path = tmp_path / "trace.json"
    troubles = Path(__file__).parents[2] / "world" / "local" / "troubles.py"
    outcome = run_traced(launcher, path, workload=f"{troubles}:{trouble}", threads=2, steps=5)
    assert isinstance(outcome, Failure)
    assert outcome.failure == failure
    assert not path.exists()
