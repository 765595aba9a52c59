import pytest

from testing.known import known
from testing.specs import workload_spec
from tuner.errors import UsageError
from tuner.plan.draft import draft_plan
from tuner.plan.objectives import OBJECTIVES, BrokenLimit, Limit, ms_per_call
from tuner.plan.study_plan import StudyPlan
from tuner.world.measurement import Measurement, ProgramRun, RankUsage, TraceNumbers

WORLD = Measurement(
    step_s=(0.001, 0.002, 0.004), wall_s=0.007, world_s=0.3,
    ranks=(RankUsage(name="worker0", cpu_s=0.006, peak_rss_mb=100.0, threads=20),),
    trace=TraceNumbers(
        rpc_cpu_total_ms=8.0, rpc_p99_ms=2.5, parallelism_mean=3.5, parallelism_max=4.0,
        diagnosis="No clear limit.",
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [("step_ms", 2.0), ("step_p99_ms", 3.96), ("cpu_ms_per_step", 2.0), ("cpu_s", 0.002),
     ("peak_rss_mb", 100.0), ("rpc_cpu_total_ms", 8.0), ("rpc_p99_ms", 2.5)],
)  # fmt: skip
def test_an_objective_is_read_from_a_world(name: str, value: float) -> None:
    objective = OBJECTIVES[name]
    assert objective.value(WORLD) == pytest.approx(value)
    if objective.traced:
        with pytest.raises(ValueError, match=f"the world has no {name}"):
            objective.value(WORLD.model_copy(update={"trace": None}))


def plan(*require: str, **keys: object) -> StudyPlan:
    return draft_plan({"workload": "udf", "require": [*require], **keys}).finish(workload_spec())


def test_limits_are_read_from_text_and_written_as_text() -> None:
    given = plan("peak_rss_mb <= 2000", "cpu_cores>=1.50")
    assert [*map(str, given.measuring.require)] == ["peak_rss_mb<=2000", "cpu_cores>=1.5"]
    assert StudyPlan.from_json(given.to_json()) == given
    # What is read from traces can be limited where it is the objective.
    assert plan("rpc_p99_ms<=3", objective="rpc_p99_ms").measuring.require


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("peak_rss<=2000", "unknown metric 'peak_rss'; did you mean peak_rss_mb?"),
        ("peak_rss_mb<2000", "must be a limit such as peak_rss_mb<=2000, got 'peak_rss_mb<2000'"),
        ("step_p99_ms<=50ms", "must end in a number, without a unit, got 'step_p99_ms<=50ms'"),
        ("step_p99_ms<=nan", "must end in a number"),
        ("wall_s<=3", "wall_s is not one of a workload; known: step_ms, step_p99_ms"),
        ("metric<=3", "metric is not one of a workload"),
        ("rpc_p99_ms<=3", "rpc_p99_ms is read from traces"),
    ],
)
def test_mistakes_are_told_with_what_would_be_right(raw: str, told: str) -> None:
    with pytest.raises(UsageError) as error:
        plan(raw)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("raw", "value", "excess", "text"),
    [
        ("peak_rss_mb<=2000", 2400.0, 400.0, "peak_rss_mb 2400 > 2000, by 20 %"),
        ("peak_rss_mb<=2000", 2004.0, 4.0, "peak_rss_mb > 2000, by 0.2 %"),
        ("cpu_cores>=2", 1.5, 0.5, "cpu_cores 1.5 < 2, by 25 %"),
        ("cpu_cores<=0", 1.5, 1.5, "cpu_cores 1.5 > 0"),
    ],
)
def test_a_broken_limit_says_by_how_much(raw: str, value: float, excess: float, text: str) -> None:
    limit = Limit.read(raw)
    assert limit.excess(value) == excess
    assert limit.excess(limit.bound) == 0
    assert BrokenLimit(limit, value).text == text


def run_of(functions: dict[str, int], wall_s: float = 1.0) -> Measurement:
    usage = RankUsage(name="learner", cpu_s=1.0, peak_rss_mb=100.0, threads=3)
    program = ProgramRun(calls=sum(functions.values()), functions=functions, failed=0)
    return Measurement(wall_s=wall_s, world_s=wall_s + 1, ranks=(usage,), program=program)


def test_calls_that_are_only_made_more_often_are_no_gain() -> None:
    mix = {"size": 0.9, "push": 0.1}
    as_it_is, polling = run_of({"size": 900, "push": 100}), run_of({"size": 2900, "push": 100})
    assert ms_per_call(as_it_is) == ms_per_call(as_it_is, mix) == pytest.approx(1.0)
    assert ms_per_call(polling) == pytest.approx(1 / 3)
    assert ms_per_call(polling, mix) == pytest.approx(1.0)
    twice = run_of({"size": 1800, "push": 200})
    assert ms_per_call(twice, mix) == pytest.approx(0.5)
    assert known(ms_per_call(run_of({"size": 900}), mix)) > 100
