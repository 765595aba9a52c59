"""What every shipped workload does in real worlds."""

from collections.abc import Iterator

import pytest

from testing.fakes import order
from testing.outcomes import failed, measured
from tests.world.launcher_contract import impatient
from tuner.world.local.local_launcher import LocalLauncher

pytestmark = [pytest.mark.world, pytest.mark.thorough]

PLAYED: dict[str, object] = {"observers": 2, "steps": 20}
TINY: dict[str, object] = {"image_size": 8, "batch_size": 2}


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    with impatient(LocalLauncher(), grace_s=0.0) as running:
        yield running


EVERY: list[tuple[str, dict[str, object]]] = [
    ("builtin", {"calls": 3, "size": 2}),
    ("cartpole", PLAYED),
    ("cartpole", {**PLAYED, "batch": False}),
    ("light", {"calls": 20, "world_size": 3, "in_flight": 4}),
    ("nested", {"depth": 3, "calls": 1}),
    ("parameter_server", {"batch": True, **TINY}),
    ("parameter_server", {"batch": False, "trainers": 3, **TINY}),
    ("payload", {"megabytes": 0.2, "calls": 3, "tensors": 2}),
    ("udf", {"calls": 2, "size": 20, "rounds": 3}),
    ("udf_sleep", {"sleep_ms": 20, "calls": 3}),
]


@pytest.mark.parametrize(
    ("reference", "options", "threads", "steps"),
    [
        *((*each, threads, 5) for each in EVERY for threads in (1, 16)),
        ("nested", {"depth": 1, "calls": 3}, 1, 50),  # no server waits
        ("nested", {"depth": 2, "calls": 3}, 4, 50),  # one thread more than calls
        ("nested", {}, 16, 50),
        ("cartpole", {"observers": 10, "steps": 10}, 2, 2),  # eleven ranks
    ],
)
def test_a_shipped_workload_gives_a_right_answer(
    launcher: LocalLauncher, reference: str, options: dict[str, object], threads: int, steps: int
) -> None:
    spec = launcher.describe(reference, options)
    assert spec.summary.endswith(".")
    assert options.items() <= spec.options.items()
    outcome = launcher.run(order(spec, threads=threads, steps=steps))
    if threads == 1 and (reference == "cartpole" or spec.options.get("depth") == 3):
        # By nature: a served function waits for a call of its own.
        assert failed(outcome).failure == "deadlocked"
    else:
        assert len(measured(outcome).step_s) == steps


@pytest.mark.parametrize(
    ("faulty", "options", "threads", "failure", "message"),
    [
        ("NoUpdate", PLAYED, 2, "wrong-answer", ""),
        ("Losing", TINY, 2, "wrong-answer", ""),
        ("WithABadLabel", TINY, 1, "crashed", "Target 99 is out of bounds"),
    ],
)
def test_a_fault_is_noticed_and_ends_the_step(
    launcher: LocalLauncher, faulty: str, options: dict[str, object], threads: int, failure: str,
    message: str,
) -> None:  # fmt: skip
    spec = launcher.describe(f"tests.workloads.faulty_copies:{faulty}", options)
    found = failed(launcher.run(order(spec, threads=threads)))
    assert found.failure == failure, found
    assert message in found.message
