import pytest

from tests.plan.specs import workload_spec
from tuner.errors import UsageError
from tuner.plan.draft import draft_plan
from tuner.plan.objectives import OBJECTIVES, BrokenLimit, Limit
from tuner.plan.study_plan import StudyPlan
from tuner.world.measurement import Measurement, RankUsage, TraceNumbers

TRACE = TraceNumbers(
    rpc_cpu_total_ms=8.0,
    rpc_p99_ms=2.5,
    parallelism_mean=3.5,
    parallelism_max=4.0,
    diagnosis="No clear limit.",
)
WORLD = Measurement(
    step_s=(0.001, 0.002, 0.004),
    wall_s=0.007,
    world_s=0.3,
    ranks=(RankUsage(name="worker0", cpu_s=0.006, peak_rss_mb=100.0, threads=20),),
    trace=TRACE,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step_ms", 2.0),
        ("step_p99_ms", 3.96),
        ("cpu_ms_per_step", 2.0),
        ("rpc_cpu_total_ms", 8.0),
        ("rpc_p99_ms", 2.5),
    ],
)
def test_an_objective_is_read_from_a_world(name: str, value: float) -> None:
    assert OBJECTIVES[name].value(WORLD) == pytest.approx(value)


def test_where_there_is_little_room_a_long_heading_is_shortened() -> None:
    assert OBJECTIVES["step_ms"].short_heading == "median step time (ms)"
    assert OBJECTIVES["rpc_active_s"].short_heading == "RPC active (s)"
    assert max(len(each.short_heading) for each in OBJECTIVES.values()) <= 30


@pytest.mark.parametrize("name", [name for name, each in OBJECTIVES.items() if each.traced])
@pytest.mark.parametrize("trace", [None, TRACE.model_copy(update={"rpc_p99_ms": None})])
def test_a_traced_objective_needs_a_trace_that_tells(name: str, trace: TraceNumbers | None) -> None:
    world = WORLD.model_copy(update={"trace": trace})
    if trace is not None and name != "rpc_p99_ms":
        assert OBJECTIVES[name].value(world) == 8.0
    else:
        with pytest.raises(ValueError, match=f"the world has no {name}"):
            OBJECTIVES[name].value(world)


def test_every_objective_says_its_unit_and_what_it_is() -> None:
    assert all(each.label and each.table_heading for each in OBJECTIVES.values())
    assert [name for name, each in OBJECTIVES.items() if not each.unit] == ["metric"]


def plan(*require: str, **keys: object) -> StudyPlan:
    return draft_plan({"workload": "udf", "require": [*require], **keys}).finish(workload_spec())


def test_limits_are_read_from_text_and_written_as_text() -> None:
    given = plan("peak_rss_mb <= 2000", "cpu_cores>=1.50")
    assert [str(limit) for limit in given.measuring.require] == [
        "peak_rss_mb<=2000",
        "cpu_cores>=1.5",
    ]
    assert given.to_json()["measuring"]["require"] == ["peak_rss_mb<=2000", "cpu_cores>=1.5"]
    assert StudyPlan.from_json(given.to_json()) == given


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


def test_a_traced_number_can_be_limited_where_it_is_the_objective() -> None:
    assert plan("rpc_p99_ms<=3", objective="rpc_p99_ms").measuring.require


@pytest.mark.parametrize(
    ("raw", "value", "excess", "text"),
    [
        ("peak_rss_mb<=2000", 2400.0, 400.0, "peak_rss_mb 2400 > 2000, by 20 %"),
        ("cpu_cores>=2", 1.5, 0.5, "cpu_cores 1.5 < 2, by 25 %"),
        ("cpu_cores<=0", 1.5, 1.5, "cpu_cores 1.5 > 0"),
    ],
)
def test_a_broken_limit_says_by_how_much(raw: str, value: float, excess: float, text: str) -> None:
    limit = Limit.read(raw)
    assert limit.excess(value) == excess
    assert limit.excess(limit.bound) == 0
    assert BrokenLimit(limit, value).text == text
