"""What a world yields."""

import pytest

from testing.known import known
from tuner.world.measurement import Failure, Measurement, ProgramRun, Quantiles, RankUsage


def test_quantiles_of_values() -> None:
    assert Quantiles.of([]) is None
    alone, even = (known(Quantiles.of(each)) for each in ([3.0], [float(n) for n in range(101)]))
    assert {*alone.model_dump().values()} == {3.0}
    assert even.model_dump() == {f"p{n}": float(n) for n in (5, 25, 50, 75, 95, 99)}


def test_a_failure_can_be_written_to_any_file() -> None:
    failure = Failure(failure="crashed", message="no file '\udcff'", world_s=1.0)
    assert failure.message == r"no file '\udcff'"
    assert failure.model_dump_json().encode()


def test_cpus_used_are_those_of_the_time_in_which_they_were_used() -> None:
    usage = RankUsage(name="worker", cpu_s=3.0, peak_rss_mb=100.0, threads=3)
    run = ProgramRun(calls=60, rpc_active_s=0.5)
    late = Measurement(wall_s=0.5, world_s=3.0, cpu_wall_s=2.0, ranks=(usage,), program=run)
    late.check_cpus(2)
    with pytest.raises(AssertionError, match=r"3\.0 CPU s in 0\.5 s, with 2 CPUs"):
        late.model_copy(update={"cpu_wall_s": None}).check_cpus(2)
