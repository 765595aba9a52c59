"""Whole studies on the fake launcher whose traces are really read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest

from tests.cheap_studies import cheaply
from tests.fakes import FakeLauncher, threads_of
from tests.plan.specs import threads
from tests.searching.tuning import Listening, row_of
from tests.trace.synthetic import call, trace
from tuner.api import SearchInterrupted, tune
from tuner.errors import UsageError
from tuner.plan.workload_spec import RankSpec
from tuner.searching.runner import numbers_of
from tuner.study.answer import StudyAnswer
from tuner.study.folder import StudyFolder
from tuner.study.metrics import METRICS
from tuner.trace.files.reader import read_trace
from tuner.trace.model.spans import TraceRank
from tuner.world.measurement import FailureKind

pytestmark = [pytest.mark.reads_traces, pytest.mark.slow]

Done = tuple[FakeLauncher, StudyAnswer, Path]
PARALLELISM = ("parallelism_mean", "parallelism_max")


def search(launcher: FakeLauncher, folder: Path, **changes: Any) -> StudyAnswer:
    keys: dict[str, Any] = {
        "space": {"num_worker_threads": [1, 4]},
        "budget": "30s",
        "max_blocks": 5,
        **changes,
    }
    return tune("udf", launcher=launcher, clock=launcher.clock, out=str(folder), **keys)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A finished study, to be read."""
    folder = tmp_path_factory.mktemp("done")
    launcher = FakeLauncher(
        step_ms=lambda config: 8.0 / min(4, threads_of(config)), others_cpus=lambda number: 0.0
    )
    with cheaply(reads_traces=True):
        return launcher, search(launcher, folder), folder


def test_each_config_is_traced_once_and_never_timed(done: Done) -> None:
    launcher, result, folder = done
    looked = sorted(str(order.config) for order in launcher.traced)
    assert looked == sorted(row.label for row in result.rows)
    assert all(order.trace is None for order in launcher.orders)
    for order in launcher.traced:
        assert order.trace is not None
        assert order.trace.path == StudyFolder(folder).trace(order.config)
        assert read_trace(order.trace.path).steps == order.steps


def test_the_rows_hold_what_the_traces_show(done: Done) -> None:
    _, result, _ = done
    # As many calls as threads, four at most, each of them all along its step of 8 / threads ms.
    one, four = row_of(result, threads(1)), row_of(result, threads(4))
    assert one.metrics["rpc_cpu_total_ms"] == pytest.approx(8.0)
    assert four.metrics["rpc_cpu_total_ms"] == pytest.approx(4 * 2.0)
    assert [one.metrics[name] for name in PARALLELISM] == pytest.approx([1.0, 1.0])
    assert [four.metrics[name] for name in PARALLELISM] == pytest.approx([4.0, 4.0])
    assert four.metrics["tracing_overhead"] == 1.25
    assert four.diagnosis
    assert "worker1" in four.diagnosis


def test_optuna_keeps_the_numbers(done: Done) -> None:
    _, result, folder = done
    study = optuna.load_study(study_name="udf", storage=f"sqlite:///{folder}/study.db")
    for trial in study.get_trials(deepcopy=False):
        row = next(row for row in result.rows if row.trial == trial.number)
        if row.is_measured:
            assert {metric.name for metric in METRICS} == set(row.metrics)
        assert {name: trial.user_attrs[name] for name in row.metrics} == row.metrics
        assert trial.user_attrs["diagnosis"] == row.diagnosis


def test_configs_that_cannot_be_traced_are_measured_all_the_same(tmp_path: Path) -> None:
    launcher = FakeLauncher(
        step_ms=lambda config: 8.0 / min(4, threads_of(config)),
        trace_fails=lambda config: "crashed" if threads_of(config) == 4 else None,
    )
    events = Listening()
    result = search(launcher, tmp_path, observer=events, baseline={"num_worker_threads": 1})
    row = row_of(result, threads(4))
    assert row.outcome == "completed"
    assert result.best == threads(4)
    assert "parallelism_mean" not in row.metrics
    assert row.diagnosis == "No trace: worker1 failed first."
    assert "num_worker_threads=4: no trace: crashed: worker1 failed first" in events.told
    assert list(result.why) == ["baseline", "best"]


def test_who_is_not_traced_for_lack_of_time_is_told_once(tmp_path: Path) -> None:
    events = Listening()
    search(FakeLauncher(overhead_s=2.0), tmp_path, observer=events, budget="40s")
    (told,) = [each for each in events.told if each.startswith("not traced")]
    labels = told.removeprefix("not traced, for lack of time: ").split("; ")
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("kind", ["trace-failed", "crashed"])
def test_a_trace_that_is_incomplete_or_fails_is_taken_again(
    tmp_path: Path, kind: FailureKind
) -> None:
    failures: list[FailureKind] = [kind, kind]
    launcher = FakeLauncher(trace_fails=lambda config: failures.pop() if failures else None)
    result = search(launcher, tmp_path)
    assert all("parallelism_mean" in row.metrics for row in result.rows)
    assert len(launcher.traced) == len(result.rows) + 2


def test_a_trace_that_stays_incomplete_is_given_up(tmp_path: Path) -> None:
    launcher = FakeLauncher(
        trace_fails=lambda config: "trace-failed" if threads_of(config) == 1 else None
    )
    result = search(launcher, tmp_path)
    row = row_of(result, threads(1))
    assert row.failure is None
    assert row.diagnosis == "No trace: worker1 failed first."
    assert sum(order.config == threads(1) for order in launcher.traced) == 3


def test_a_resumed_study_traces_nothing_twice(tmp_path: Path) -> None:
    # The contenders are traced first.
    first = FakeLauncher(interrupt_tracing=2)
    with pytest.raises(SearchInterrupted):
        search(first, tmp_path)
    second = FakeLauncher()
    result = search(second, tmp_path, resume=True)
    assert (len(first.traced), len(second.traced)) == (2, len(result.rows) - 2)
    orders = [*first.traced, *second.traced]
    operators = [order.trace is not None and order.trace.operators for order in orders]
    assert operators == [True, True, *[False] * len(second.traced)]
    assert all("parallelism_mean" in row.metrics for row in result.rows)


@pytest.mark.parametrize("objective", ["rpc_cpu_total_ms", "rpc_p99_ms"])
def test_a_traced_objective_traces_every_world(tmp_path: Path, objective: str) -> None:
    launcher = FakeLauncher(step_ms=lambda config: 2.0 if threads_of(config) < 4 else 4.0)
    result = search(launcher, tmp_path, objective=objective, baseline={"num_worker_threads": 4})
    timed = [order for order in launcher.orders if order.steps is not None]
    assert timed
    assert all(order.trace is not None and not order.trace.operators for order in timed)
    # A latency is the step's length; the sum of a step counts each of its calls.
    expected = {"rpc_cpu_total_ms": (2.0, 16.0), "rpc_p99_ms": (2.0, 4.0)}[objective]
    rows = [row_of(result, threads(count)) for count in (1, 4)]
    assert [row.value for row in rows] == pytest.approx(expected)
    assert result.best == threads(1)
    assert result.verdict == "better"


def test_an_objective_of_calls_is_refused_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def numbers_without_calls(path: Path, ranks: Sequence[RankSpec]) -> Any:
        return numbers_of(path, ranks).model_copy(update={"rpc_p99_ms": None})

    monkeypatch.setattr("tuner.searching.runner.numbers_of", numbers_without_calls)
    with pytest.raises(UsageError, match="the workload udf makes none"):
        search(FakeLauncher(), tmp_path, objective="rpc_p99_ms")


def test_the_diagnosis_takes_together_what_the_study_calls_a_role(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ("agent", "east", "west")
    calls = [
        call(
            number, 10.0 * number, 10.0 * number + 10, client="agent", server=names[1 + number % 2],
            server_rank=1 + number % 2, served_ms=(10.0 * number + 1, 10.0 * number + 9),
        )
        for number in range(100)
    ]  # fmt: skip
    seen = trace(
        calls,
        processes=tuple(TraceRank(rank=rank, name=name) for rank, name in enumerate(names)),
        window_ms=(0, 1000),
    )
    monkeypatch.setattr("tuner.searching.runner.read_trace", lambda path: seen)
    of_one_role = [RankSpec(name=name, role="env") for name in names[1:]]
    assert "for 80 % of the time" in numbers_of(tmp_path, of_one_role).diagnosis
    assert "for 40 % (" in numbers_of(tmp_path, ()).diagnosis
    assert numbers_of(tmp_path, ()).calls == 100
    monkeypatch.setattr("tuner.searching.runner.read_trace", lambda path: trace())
    assert numbers_of(tmp_path, ()).calls == 0


def test_the_parts_of_a_call_add_up_to_its_latency(done: Done) -> None:
    _, result, folder = done
    for row in result.rows:
        detail = result.details[row.trial]
        assert detail.call_ms is not None
        calls = read_trace(StudyFolder(folder).trace(row.config)).calls
        latency_ms = (calls["end_ns"] - calls["start_ns"]).mean() / 1e6
        assert sum(detail.call_parts_ms.values()) == pytest.approx(latency_ms)
        assert set(detail.call_parts_ms) == {
            "transport", "queue", "on_cpu", "run_queue", "off_cpu", "pending",
        }  # fmt: skip
        assert detail.call_ms.p5 <= latency_ms <= detail.call_ms.p99 * 1.001


def test_an_incomplete_trace_eliminates_no_configs(tmp_path: Path) -> None:
    """With an objective that only a trace tells, every world can have one."""
    launcher = FakeLauncher(
        step_ms=lambda config: 2.0 if threads_of(config) < 4 else 4.0,
        fails=lambda config, world: "trace-failed" if world % 3 == 1 else None,
    )
    result = search(launcher, tmp_path, objective="rpc_p99_ms", baseline={"num_worker_threads": 4})
    assert [row.outcome for row in result.rows] == ["completed", "completed"]
    assert result.best == threads(1)
