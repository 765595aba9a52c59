import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import ClassVar
from unittest.mock import patch

import gymnasium
import pytest
import torch
from torch import Tensor

from tests.fakes import order
from tests.workloads.workload_contract import WorkloadContract, launcher
from tuner.world.local.launcher import LocalLauncher
from tuner.world.measurement import Measurement
from workloads import Rank, WorkloadError, World, cartpole, cartpole_agent
from workloads.cartpole import (
    CartPole,
    Observer,
    check_actions,
    check_environment,
    check_update,
    play,
)
from workloads.cartpole_agent import (
    Adam,
    Agent,
    Episode,
    Noise,
    Played,
    Policy,
    State,
    log_probs_of,
    mean_reward,
)

__all__ = ["launcher"]

# Copies with a fault planted in each.


class SwappingAgent(Agent):
    """Gives the first two observers of a batch each other's action."""

    def _act(self, rows: slice, states: Sequence[State]) -> list[int]:
        first, second, *others = super()._act(rows, states)
        return [second, first, *others]


class MisnotingAgent(Agent):
    """Notes another action than the one it gives, once in an episode."""

    def select_action(self, observer: int, state: State) -> int:
        action = super().select_action(observer, state)
        if observer == 1 and len(self._actions[1]) == 3:
            self._actions[1][-1] = 1 - action
        return action


class StubbornAgent(Agent):
    """Takes action 1 whatever its policy says."""

    def begin_episode(self, noise: Noise) -> None:
        super().begin_episode(replace(noise, uniforms=torch.zeros_like(noise.uniforms)))


class LosingObserver(Observer):
    """Gives no reward for its last step."""

    def run_episode(self, seed: int) -> Played:
        played = super().run_episode(seed)
        return Played([*played.rewards[:-1], 0.0], played.ends)


class IdleAdam(Adam):
    """Does not update."""

    def step(self, gradients: Sequence[Tensor]) -> None:
        pass


class ExplodingAdam(Adam):
    """Updates by what is no number."""

    def step(self, gradients: Sequence[Tensor]) -> None:
        super().step([gradient * torch.nan for gradient in gradients])


def log_probs_of_others(actions: Tensor, log_probs: Tensor) -> Tensor:
    """Of the actions not taken."""
    return log_probs_of(1 - actions, log_probs)


class WithFault(CartPole):
    """Something of it is another thing in every process of the world."""

    fault: ClassVar[tuple[ModuleType, str, object]]
    """A module, a name in it, and what that means here."""

    def setup(self, world: World) -> None:
        patch.object(*self.fault).start()
        super().setup(world)


class SwappedActions(WithFault):
    fault = (cartpole, "Agent", SwappingAgent)


class AnotherActionNoted(WithFault):
    fault = (cartpole, "Agent", MisnotingAgent)


class PolicyNotAsked(WithFault):
    fault = (cartpole, "Agent", StubbornAgent)


class LostReward(WithFault):
    fault = (cartpole, "Observer", LosingObserver)


class LogProbsOfOtherActions(WithFault):
    fault = (cartpole_agent, "log_probs_of", log_probs_of_others)


class NoUpdate(WithFault):
    fault = (cartpole_agent, "Adam", IdleAdam)


class UpdateToNaN(WithFault):
    fault = (cartpole_agent, "Adam", ExplodingAdam)


def here(*workloads: type[CartPole]) -> tuple[str, ...]:
    return tuple(f"{each.__module__}:{each.__name__}" for each in workloads)


class TestInBatches(WorkloadContract):
    reference = "cartpole"
    options: ClassVar[dict[str, object]] = {"observers": 2, "steps": 20}
    faulty = here(SwappedActions, LostReward, LogProbsOfOtherActions, NoUpdate, UpdateToNaN)
    deadlocks_with_one_thread = True


class TestOneByOne(WorkloadContract):
    reference = "cartpole"
    options: ClassVar[dict[str, object]] = {"observers": 2, "steps": 20, "batch": False}
    faulty = here(AnotherActionNoted, PolicyNotAsked)
    deadlocks_with_one_thread = True


# Worlds whose rewards are known.


class Recorded(CartPole):
    """Leaves its agent's history in a file."""

    path: str = ""
    """Of the file."""

    def setup(self, world: World) -> None:
        super().setup(world)
        self._log_probs: list[float] = []

    def step(self, world: World) -> None:
        super().step(world)
        self._log_probs.append(self._last.log_probs.double().sum().item())

    def teardown(self, world: World) -> None:
        super().teardown(world)
        if world.role == "agent":
            history = {"mean_rewards": list(self.mean_rewards), "log_probs": self._log_probs}
            Path(self.path).write_text(json.dumps(history))


class Histories:
    """Runs worlds, and reads what they leave."""

    def __init__(self, launcher: LocalLauncher, path: Path) -> None:
        self._launcher = launcher
        self._path = path

    def of(self, episodes: int, threads: int = 2, **options: object) -> dict[str, list[float]]:
        """The mean reward, and the sum of all log-probabilities, of each of the first episodes."""
        (reference,) = here(Recorded)
        spec = self._launcher.describe(reference, {**options, "path": str(self._path)})
        outcome = self._launcher.run(order(spec, threads=threads, steps=episodes))
        assert isinstance(outcome, Measurement), outcome
        history: dict[str, list[float]] = json.loads(self._path.read_text())
        # There are more: a world warms up.
        return {name: values[:episodes] for name, values in history.items()}


@pytest.fixture
def histories(launcher: LocalLauncher, tmp_path: Path) -> Histories:
    return Histories(launcher, tmp_path / "history.json")


def world_of(workload: CartPole) -> World:
    return World(rank=0, ranks=tuple(workload.ranks()), seed=7)


class Alone:
    """The job in one process: the observers play one after the other."""

    def __init__(self, workload: CartPole) -> None:
        self.workload = workload
        self.world = world_of(workload)
        self.policy = Policy(workload.hidden, self.world.seed + workload.seed)
        self._agent = Agent(
            self.policy,
            observers=workload.observers,
            learning_rate=workload.learning_rate,
            gamma=workload.gamma,
        )
        self._env = gymnasium.make("CartPole-v1")

    def run(self, episode: int) -> Episode:
        self._agent.begin_episode(self.workload.noise_of(episode, self.world))
        return self._agent.learn(
            [self._play(episode, observer) for observer in range(self.workload.observers)]
        )

    def _play(self, episode: int, observer: int) -> Played:
        return play(
            self._env,
            self.workload.steps,
            self.workload.seed_of(episode, observer + 1, self.world),
            lambda state: self._agent.select_action(observer, state),
        )


@pytest.mark.world
@pytest.mark.parametrize("batch", [True, False])
def test_any_number_of_threads_does_what_one_process_does(
    histories: Histories, batch: bool
) -> None:
    alone = Alone(CartPole(observers=3, steps=30))
    expected = [mean_reward(alone.run(episode).played) for episode in range(10)]
    few, many = (
        histories.of(10, threads=threads, observers=3, steps=30, batch=batch) for threads in (2, 16)
    )
    assert few["mean_rewards"] == expected
    assert few == many


@pytest.mark.world
def test_the_policy_learns(histories: Histories) -> None:
    # Over twelve seeds the ratio was from 3.2 to 6.
    mean_rewards = histories.of(60, observers=3, steps=200)["mean_rewards"]
    assert mean(mean_rewards[-12:]) > 2 * mean(mean_rewards[:6])


@pytest.mark.world
def test_a_world_of_eleven_ranks_runs(launcher: LocalLauncher) -> None:
    spec = launcher.describe("cartpole", {"observers": 10})
    assert isinstance(outcome := launcher.run(order(spec, steps=2)), Measurement), outcome
    assert len(outcome.step_s) == 2


def test_another_seed_gives_another_run() -> None:
    runs = [Alone(CartPole(seed=seed)).run(0).played for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]


# The environment.


def always_left(seed: int) -> tuple[Played, list[State]]:
    """Thirty steps, and the states in which they were taken."""
    states: list[State] = []

    def choose(state: State) -> int:
        states.append(state)
        return 0

    return play(gymnasium.make("CartPole-v1"), 30, seed, choose), states


def test_play_takes_exactly_so_many_steps_and_sets_a_fallen_pole_up_again() -> None:
    played, states = always_left(seed=5)
    falls = [step for step, end in enumerate(played.ends) if end]
    assert played.rewards == [1.0] * 30
    assert len(states) == len(played.ends) == 30
    assert len(falls) >= 2
    # A pole that has been set up again stands within 0.05 of the middle, almost at rest.
    for step, state in enumerate(states):
        assert (max(map(abs, state)) <= 0.05) == (step == 0 or step - 1 in falls)


def test_play_is_reproduced_by_its_seed() -> None:
    assert always_left(seed=5) == always_left(seed=5)
    assert always_left(seed=5)[1] != always_left(seed=6)[1]


def test_the_time_of_a_pole_is_up_after_500_steps() -> None:
    env = gymnasium.make("CartPole-v1")
    # Pushing to the side to which the pole falls holds it.
    played = play(env, 501, 1, lambda state: int(state[2] + state[3] > 0))
    assert [step for step, end in enumerate(played.ends) if end] == [499]


def test_seeds_differ_by_episode_and_rank() -> None:
    workload = CartPole()
    world = world_of(workload)
    seeds = {workload.seed_of(episode, rank, world) for episode in range(50) for rank in range(5)}
    assert len(seeds) == 250
    assert CartPole(seed=1).seed_of(0, 0, world) not in seeds


# The check.


@pytest.fixture(scope="module")
def alone() -> Alone:
    return Alone(CartPole(observers=2, steps=20))


@pytest.fixture(scope="module")
def episode(alone: Alone) -> Episode:
    return alone.run(0)


def check_first_observer(episode: Episode, alone: Alone) -> None:
    env, seed = gymnasium.make("CartPole-v1"), alone.workload.seed_of(0, 1, alone.world)
    check_environment("observer1", episode, 0, env, seed)


def check_all_actions(episode: Episode, alone: Alone) -> None:
    check_actions(episode, alone.policy, alone.workload.noise_of(0, alone.world))


def test_a_right_episode_passes(episode: Episode, alone: Alone) -> None:
    check_first_observer(episode, alone)
    check_all_actions(episode, alone)
    check_update(episode, alone.policy)


def test_actions_of_another_observer_are_noticed(episode: Episode, alone: Alone) -> None:
    swapped = replace(episode, actions=episode.actions.flip(0))
    with pytest.raises(AssertionError, match="noted for observer1 do not lead to the states"):
        check_first_observer(swapped, alone)


@pytest.mark.parametrize("rewards", [[1.0] * 19, [1.0] * 19 + [0.0]], ids=["missing", "zero"])
def test_a_lost_reward_is_noticed(episode: Episode, alone: Alone, rewards: list[float]) -> None:
    first, second = episode.played
    losing = replace(episode, played=[replace(first, rewards=rewards), second])
    with pytest.raises(AssertionError, match="observer1 gave other rewards"):
        check_first_observer(losing, alone)


def test_an_end_at_another_step_is_noticed(episode: Episode, alone: Alone) -> None:
    first, second = episode.played
    moved = replace(episode, played=[replace(first, ends=first.ends[::-1]), second])
    with pytest.raises(AssertionError, match="observer1 gave other rewards"):
        check_first_observer(moved, alone)


def test_a_log_prob_of_another_action_is_noticed(episode: Episode, alone: Alone) -> None:
    log_probs = episode.log_probs.clone()
    log_probs[1, 3] = torch.log1p(-log_probs[1, 3].exp())
    with pytest.raises(AssertionError, match="log-probabilities are not those of the actions"):
        check_all_actions(replace(episode, log_probs=log_probs), alone)


def test_a_missing_log_prob_is_noticed(episode: Episode, alone: Alone) -> None:
    with pytest.raises(AssertionError, match=r"log-probabilities of shape \(2, 19\)"):
        check_all_actions(replace(episode, log_probs=episode.log_probs[:, 1:]), alone)


def test_an_action_that_the_policy_does_not_draw_is_noticed(episode: Episode, alone: Alone) -> None:
    actions, log_probs = episode.actions.clone(), episode.log_probs.clone()
    actions[1, 3] = 1 - actions[1, 3]
    log_probs[1, 3] = torch.log1p(-log_probs[1, 3].exp())
    with pytest.raises(AssertionError, match="1 actions are not those that the policy draws"):
        check_all_actions(replace(episode, actions=actions, log_probs=log_probs), alone)


def test_parameters_that_are_no_numbers_are_noticed(episode: Episode, alone: Alone) -> None:
    before = {name: value * torch.nan for name, value in episode.parameters_before.items()}
    with pytest.raises(AssertionError, match=r"a probability outside of \(0, 1\]"):
        check_all_actions(replace(episode, parameters_before=before), alone)
    policy = Policy(alone.workload.hidden, seed=0)
    policy.load_state_dict(before)
    with pytest.raises(AssertionError, match=r"hidden.weight is not finite after the update"):
        check_update(episode, policy)


def test_a_lost_update_is_noticed(episode: Episode, alone: Alone) -> None:
    policy = Policy(alone.workload.hidden, seed=0)
    policy.load_state_dict(episode.parameters_before)
    with pytest.raises(AssertionError, match="the update did not change the policy"):
        check_update(episode, policy)


# Options.


def test_wrong_options_are_refused() -> None:
    with pytest.raises(WorkloadError) as raised:
        CartPole(observers=0, steps=1, gamma=1.5, learning_rate=0, hidden=0, seed=-1, device="tpu")
    assert raised.value.problems == (
        "option observers must be at least 1, got 0",
        "option steps must be at least 2, got 1",
        "option gamma must be at least 0.01 and at most 1, got 1.5",
        "option learning_rate must be at least 1e-05 and at most 1, got 0",
        "option hidden must be at least 1, got 0",
        "option seed must be at least 0 and below 4294967296, got -1",
        "option device must be cpu or cuda, got 'tpu'",
    )


def test_a_gpu_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(WorkloadError, match="device is cuda, and PyTorch finds no GPU"):
        CartPole(device="cuda")


def test_gymnasium_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cartpole, "gymnasium", None)
    with pytest.raises(WorkloadError) as raised:
        CartPole()
    assert raised.value.problems == ("it needs Gymnasium: pip install 'rpc-tuner[cartpole]'",)


def test_ranks() -> None:
    assert CartPole(observers=2).ranks() == [
        Rank("agent", "agent"),
        Rank("observer1", "observer"),
        Rank("observer2", "observer"),
    ]
