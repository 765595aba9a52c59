"""What a world yields."""

from tuner.world.measurement import Failure, Quantiles


def test_quantiles_of_a_hundred_even_steps() -> None:
    found = Quantiles.of([float(n) for n in range(101)])
    assert found is not None
    assert found.model_dump() == {
        "p5": 5.0, "p25": 25.0, "p50": 50.0, "p75": 75.0, "p95": 95.0, "p99": 99.0,
    }  # fmt: skip


def test_quantiles_of_one_value_and_of_none() -> None:
    assert Quantiles.of([]) is None
    alone = Quantiles.of([3.0])
    assert alone is not None
    assert set(alone.model_dump().values()) == {3.0}


def test_a_failure_can_be_written_to_any_file() -> None:
    failure = Failure(failure="crashed", message="no file '\udcff'", world_s=1.0)
    assert failure.message == r"no file '\udcff'"
    assert failure.model_dump_json().encode()
