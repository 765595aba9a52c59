"""The critical path of real worlds."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes import order
from tuner.trace.analyze.critical_path import critical_path
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.files.reader import read_trace
from tuner.trace.model.trace import Trace
from tuner.world.launcher import TraceOrder
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement

pytestmark = [pytest.mark.world, pytest.mark.thorough]

CHAIN = f"{Path(__file__).with_name('chain.py')}:Chain"


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    with LocalLauncher() as running:
        yield running


def traced(launcher: LocalLauncher, workload: str, path: Path) -> Trace:
    spec = launcher.describe(workload, {})
    plain = order(spec, threads=8, steps=20)
    outcome = launcher.run(replace(plain, trace=TraceOrder(path=path, operators=True)))
    assert isinstance(outcome, Measurement), outcome
    return read_trace(path)


@pytest.fixture(scope="module")
def chain(launcher: LocalLauncher, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    # A host that stops for a while in one of the steps makes the intervals wide.
    folder = tmp_path_factory.mktemp("chain")
    worlds = (traced(launcher, CHAIN, folder / f"chain{number}.json") for number in range(3))
    return max(worlds, key=lambda trace: float(critical_path(trace).iloc[0]["ci_low"]))


def test_the_end_of_a_chain_is_what_its_beginning_waits_for(chain: Trace) -> None:
    first = critical_path(chain).iloc[0]
    assert (first["part"], first["process"], first["function"]) == ("off_cpu", "worker2", "nap")
    assert first["ci_low"] > 0.5
    found = diagnose(chain)
    assert (found.limits[0].kind, found.limits[0].processes) == ("off_cpu", ("worker2",))
    # worker1 serves calls for as long as worker2, but only waits.
    assert all(limit.processes != ("worker1",) for limit in found.limits)


def test_nested_calls_of_a_workload_are_followed_through_every_server(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    taken = traced(launcher, "nested", tmp_path / "nested.json")
    found = critical_path(taken)
    assert found["share"].sum() == pytest.approx(1)
    assert set(found["process"]) == {"worker0", "worker1", "worker2", "worker3"}
    # They do nothing but call each other, each from the function that it serves.
    ways = found[found["part"].isin(["issue", "to_server", "to_client"])]
    assert set(ways["process"]) == {"worker0", "worker1", "worker2", "worker3"}
    assert "unseen" not in set(found["part"])
