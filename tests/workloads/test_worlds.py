"""What every shipped workload does in real worlds."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes import order
from tests.world.launcher_contract import failed, impatient, measured
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Outcome

pytestmark = [pytest.mark.world, pytest.mark.thorough]

FAULTY = "tests.workloads.faulty_copies"
PLAYED: dict[str, object] = {"observers": 2, "steps": 20}
TINY: dict[str, object] = {"image_size": 8, "batch_size": 2}


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    with impatient(LocalLauncher(), grace_s=0.0) as running:
        yield running


def run(launcher: LocalLauncher, reference: str, options: dict[str, object], **how: Any) -> Outcome:
    return launcher.run(order(launcher.describe(reference, options), **how))


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
    ("faulty", "options"), [(f"{FAULTY}:NoUpdate", PLAYED), (f"{FAULTY}:Losing", TINY)]
)
def test_a_check_of_several_functions_notices_a_fault(
    launcher: LocalLauncher, faulty: str, options: dict[str, object]
) -> None:
    found = failed(run(launcher, faulty, options))
    assert found.failure == "wrong-answer", found


def test_a_trainer_that_fails_ends_the_step(launcher: LocalLauncher) -> None:
    found = failed(run(launcher, f"{FAULTY}:WithABadLabel", TINY, threads=1))
    assert found.failure == "crashed"
    assert "Target 99 is out of bounds" in found.message
