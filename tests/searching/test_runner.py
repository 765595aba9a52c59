"""What a runner makes of worlds and of their traces, alone and in whole studies."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testing.cheap_studies import NUMBERS, cheaply
from testing.fakes import UDF, FakeLauncher, threads_of
from testing.known import known
from testing.specs import threads
from testing.synthetic import call, trace
from tests.searching.tuning import Tune, failing, row_of, scaling
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.draft import draft_plan
from tuner.plan.workload_spec import RankSpec
from tuner.searching.runner import TRACE_ATTEMPTS, Runner, TimedWorld, numbers_of
from tuner.study.answer import StudyAnswer
from tuner.study.folder import StudyFolder
from tuner.study.metrics import METRICS
from tuner.study.records import MOST_REPEATS
from tuner.trace.files.reader import read_trace
from tuner.trace.model.spans import TraceRank
from tuner.world.measurement import Failure, FailureKind

pytestmark = [pytest.mark.reads_traces, pytest.mark.slow]

ASKED: dict[str, Any] = {"space": {"num_worker_threads": [1, 4]}, "max_blocks": 5}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tune, StudyAnswer]:
    """A finished study, to be read."""
    tune = Tune(tmp_path_factory.mktemp("done"))
    with cheaply(reads_traces=True):
        return tune, tune(step_ms=scaling, others_cpus=lambda number: 0.0, **ASKED)


def test_each_config_is_traced_once_and_never_timed(done: tuple[Tune, StudyAnswer]) -> None:
    tune, result = done
    looked = sorted(str(order.config) for order in tune.launcher.traced)
    assert looked == sorted(row.label for row in result.rows)
    # The contenders are traced first, and they alone with their operators.
    operators = [known(order.trace).operators for order in tune.launcher.traced]
    assert operators == [True, True, False]
    assert all(order.trace is None for order in tune.launcher.orders)
    for order in tune.launcher.traced:
        path = known(order.trace).path
        assert path == StudyFolder(tune.folder).trace(order.config)
        assert read_trace(path).steps == order.steps


def test_the_rows_and_optuna_hold_what_the_traces_show(done: tuple[Tune, StudyAnswer]) -> None:
    tune, result = done
    # As many calls as threads, four at most, each of them all along its step of 8 / threads ms.
    for count in (1, 4):
        row = row_of(result, threads(count))
        shown = [row.metrics[name] for name in ("parallelism_mean", "parallelism_max")]
        assert [row.metrics["rpc_cpu_total_ms"], *shown] == pytest.approx([8.0, count, count])
        assert row.metrics["tracing_overhead"] == 1.25
        assert row.diagnosis
    for trial in tune.study.get_trials(deepcopy=False):
        row = result.by_trial[trial.number]
        if row.is_measured:
            assert {metric.name for metric in METRICS} == set(row.metrics)
        assert {name: trial.user_attrs[name] for name in row.metrics} == row.metrics
        assert trial.user_attrs["diagnosis"] == row.diagnosis


def test_the_parts_of_a_call_add_up_to_its_latency(done: tuple[Tune, StudyAnswer]) -> None:
    tune, result = done
    for row in result.rows:
        detail = result.details[row.trial]
        calls = read_trace(StudyFolder(tune.folder).trace(row.config)).calls
        latency_ms = (calls["end_ns"] - calls["start_ns"]).mean() / 1e6
        assert sum(detail.call_parts_ms.values()) == pytest.approx(latency_ms)
        assert [*detail.call_parts_ms] == [
            "transport", "queue", "on_cpu", "run_queue", "off_cpu", "pending",
        ]  # fmt: skip
        assert known(detail.call_ms).p5 <= latency_ms <= known(detail.call_ms).p99 * 1.001


@pytest.mark.parametrize(
    ("kind", "attempts"), [("crashed", 1 + MOST_REPEATS), ("trace-failed", TRACE_ATTEMPTS)]
)
def test_configs_that_cannot_be_traced_are_measured_all_the_same(
    tune: Tune, kind: FailureKind, attempts: int
) -> None:
    fails = failing(kind, 4)
    result = tune(
        step_ms=scaling, **ASKED, baseline={"num_worker_threads": 1},
        trace_fails=lambda config: fails(config, 0),
    )  # fmt: skip
    row = row_of(result, threads(4))
    assert (row.outcome, row.failure, result.best) == ("completed", None, threads(4))
    assert row.diagnosis == "No trace: worker1 failed first."
    told = f"num_worker_threads=4: no trace: {kind}: worker1 failed first"
    assert told in tune.heard.told
    assert list(result.why) == ["baseline", "best"]
    assert [order.config for order in tune.launcher.traced].count(threads(4)) == attempts


def test_who_is_not_traced_for_lack_of_time_is_told_once(tune: Tune) -> None:
    tune(**ASKED, overhead_s=2.0, budget="40s")
    (told,) = [each for each in tune.heard.told if each.startswith("not traced")]
    labels = told.removeprefix("not traced, for lack of time: ").split("; ")
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("kind", ["trace-failed", "crashed"])
def test_a_trace_that_is_incomplete_or_fails_is_taken_again(tune: Tune, kind: FailureKind) -> None:
    failures: list[FailureKind] = [kind, kind]
    result = tune(**ASKED, trace_fails=lambda config: failures.pop() if failures else None)
    assert all("parallelism_mean" in row.metrics for row in result.rows)
    assert len(tune.launcher.traced) == len(result.rows) + 2


@pytest.mark.parametrize(
    ("objective", "values"), [("rpc_cpu_total_ms", (2.0, 16.0)), ("rpc_p99_ms", (2.0, 4.0))]
)
def test_a_traced_objective_traces_every_world(
    tune: Tune, objective: str, values: tuple[float, float]
) -> None:
    result = tune(
        step_ms=lambda config: 2.0 if threads_of(config) < 4 else 4.0, **ASKED,
        fails=lambda config, world: "trace-failed" if world % 3 == 1 else None,
        objective=objective, baseline={"num_worker_threads": 4},
    )  # fmt: skip
    timed = [order for order in tune.launcher.orders if order.steps is not None]
    assert all(order.trace is not None and not order.trace.operators for order in timed)
    # A latency is the step's length; the sum of a step counts each of its calls.
    rows = [row_of(result, threads(count)) for count in (1, 4)]
    assert [row.outcome for row in rows] == ["completed", "completed"]
    assert [row.value for row in rows] == pytest.approx(values)
    assert (result.best, result.verdict) == (threads(1), "better")


def test_an_objective_of_calls_is_refused_where_there_are_none(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = NUMBERS.model_copy(update={"rpc_p99_ms": None})
    monkeypatch.setattr("tuner.searching.runner.numbers_of", lambda path, ranks: without)
    with pytest.raises(UsageError, match="the workload udf makes none"):
        tune(FakeLauncher(), **ASKED, objective="rpc_p99_ms")


def test_the_diagnosis_takes_together_what_the_study_calls_a_role(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = ("agent", "east", "west")
    calls = [
        call(n, 10.0 * n, 10.0 * n + 10, client="agent", server=names[1 + n % 2],
             server_rank=1 + n % 2, served_ms=(10.0 * n + 1, 10.0 * n + 9))
        for n in range(100)
    ]  # fmt: skip
    ranks = tuple(TraceRank(rank=rank, name=name) for rank, name in enumerate(names))
    seen = trace(calls, processes=ranks, window_ms=(0, 1000))
    monkeypatch.setattr("tuner.searching.runner.read_trace", lambda path: seen)
    of_one_role = [RankSpec(name=name, role="env") for name in names[1:]]
    assert "for 80 % of the time" in numbers_of(tmp_path, of_one_role).diagnosis
    assert "For 40 % (" in numbers_of(tmp_path, ()).diagnosis
    assert numbers_of(tmp_path, ()).calls == 100
    # What the driver's last step did not wait for is counted; a program has no steps.
    assert numbers_of(tmp_path, ()).open_calls is None
    early = replace(seen, steps=10, window_ns=(0, 985_000_000))
    monkeypatch.setattr("tuner.searching.runner.read_trace", lambda path: early)
    assert numbers_of(tmp_path, ()).open_calls == 2
    monkeypatch.setattr("tuner.searching.runner.read_trace", lambda path: trace())
    assert numbers_of(tmp_path, ()).calls == 0


def runner_of(launcher: FakeLauncher, folder: Path) -> Runner:
    plan = draft_plan({"workload": "udf", "out": str(folder)}).finish(UDF)
    return Runner(plan, launcher, StudyFolder(folder))


def test_a_world_that_used_more_cpus_than_there_are_is_no_wrong_answer(tmp_path: Path) -> None:
    launcher = FakeLauncher(cpu_cores=lambda config: 1e6, others_cpus=lambda world: 0.0)
    outcome = runner_of(launcher, tmp_path).run(TimedWorld(0, 0, Config.of({}), 5))
    assert isinstance(outcome, Failure)
    # A wrong answer would bar the configuration for good.
    assert outcome.failure == "crashed"
    assert outcome.message.startswith("its ranks report what cannot be: ")


def test_a_trace_is_taken_again_in_what_is_left_of_the_time(tmp_path: Path) -> None:
    launcher = FakeLauncher(trace_fails=lambda config: "trace-failed", failing_s=lambda config: 4.0)
    runner_of(launcher, tmp_path).trace(Config.of({}), step_s=0.1, deadline_s=10.0)
    assert [order.deadline_s for order in launcher.traced] == [10.0, 6.0]


def test_a_trace_that_cannot_be_read_fails_the_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = FakeLauncher()
    monkeypatch.setattr("testing.fakes.fake_trace", lambda *given: b"{}")
    outcome = runner_of(launcher, tmp_path).trace(Config.of({}), step_s=0.1, deadline_s=5.0)
    assert isinstance(outcome, Failure)
    assert outcome.failure == "trace-failed"
    assert "the trace cannot be read" in outcome.message
    assert len(launcher.traced) == TRACE_ATTEMPTS
