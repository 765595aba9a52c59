import pytest
from pydantic import TypeAdapter, ValidationError

from tuner.plan.measuring import ObjectiveName
from tuner.plan.objectives import OBJECTIVES
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


def test_an_unknown_objective_comes_with_the_nearest_one() -> None:
    names: TypeAdapter[str] = TypeAdapter(ObjectiveName)
    assert names.validate_python("step_ms") == "step_ms"
    with pytest.raises(ValidationError, match=r"unknown objective 'step'; did you mean step_ms\?"):
        names.validate_python("step")
