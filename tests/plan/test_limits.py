import pytest

from tests.plan.specs import workload_spec
from tuner.errors import UsageError
from tuner.plan.draft import draft_plan
from tuner.plan.limits import BrokenLimit, Limit
from tuner.plan.study_plan import StudyPlan


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
