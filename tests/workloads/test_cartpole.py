import json
from pathlib import Path
from statistics import mean
from typing import ClassVar

import pytest

from tests.fakes import order
from tests.workloads.cartpole_alone import Alone, world_of
from tests.workloads.workload_contract import WorkloadContract, launcher
from tuner.world.local.local_launcher import LocalLauncher
from tuner.world.measurement import Measurement
from workloads.cartpole import CartPole
from workloads.cartpole_agent import mean_reward

__all__ = ["launcher"]

COPIES = "tests.workloads.cartpole_copies"
EPISODES = 5


class TestInBatches(WorkloadContract):
    reference = "cartpole"
    options: ClassVar[dict[str, object]] = {"observers": 2, "steps": 20}
    faulty = (f"{COPIES}:SwappedActions", f"{COPIES}:NoUpdate")
    deadlocks_with_one_thread = True


class TestOneByOne(WorkloadContract):
    reference = "cartpole"
    options: ClassVar[dict[str, object]] = {"observers": 2, "steps": 20, "batch": False}
    deadlocks_with_one_thread = True


# Worlds whose rewards are known.


class Histories:
    """Runs worlds, and reads what they leave."""

    def __init__(self, launcher: LocalLauncher, path: Path) -> None:
        self._launcher = launcher
        self._path = path

    def of(self, episodes: int, threads: int = 2, **options: object) -> dict[str, list[float]]:
        """The mean reward, and the sum of all log-probabilities, of each of the first episodes."""
        spec = self._launcher.describe(f"{COPIES}:Recorded", {**options, "path": str(self._path)})
        outcome = self._launcher.run(order(spec, threads=threads, steps=episodes))
        assert isinstance(outcome, Measurement), outcome
        history: dict[str, list[float]] = json.loads(self._path.read_text())
        # There are more: a world warms up.
        return {name: values[:episodes] for name, values in history.items()}


@pytest.fixture
def histories(launcher: LocalLauncher, tmp_path: Path) -> Histories:
    return Histories(launcher, tmp_path / "history.json")


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.parametrize("batch", [True, False])
def test_any_number_of_threads_does_what_one_process_does(
    histories: Histories, batch: bool
) -> None:
    alone = Alone(CartPole(observers=3, steps=30))
    expected = [mean_reward(alone.run(episode).played) for episode in range(EPISODES)]
    few, many = (
        histories.of(EPISODES, threads=threads, observers=3, steps=30, batch=batch)
        for threads in (2, 16)
    )
    assert few["mean_rewards"] == expected
    assert few == many


def test_the_policy_learns() -> None:
    """In one process: worlds do the same."""
    alone = Alone(CartPole(observers=3, steps=200, learning_rate=0.02))
    rewards = [mean_reward(alone.run(episode).played) for episode in range(30)]
    # Over eight seeds the ratio was from 2.4 to 6.
    assert mean(rewards[-8:]) > 1.5 * mean(rewards[:5])


@pytest.mark.world
@pytest.mark.thorough
def test_a_world_of_eleven_ranks_runs(launcher: LocalLauncher) -> None:
    spec = launcher.describe("cartpole", {"observers": 10, "steps": 10})
    assert isinstance(outcome := launcher.run(order(spec, steps=2)), Measurement), outcome
    assert len(outcome.step_s) == 2


def test_seeds_differ_by_episode_and_rank_and_give_other_runs() -> None:
    runs = [Alone(CartPole(seed=seed)).run(0).played for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
    workload = CartPole()
    world = world_of(workload)
    seeds = {workload.seed_of(episode, rank, world) for episode in range(50) for rank in range(5)}
    assert len(seeds) == 250
    assert CartPole(seed=1).seed_of(0, 0, world) not in seeds
