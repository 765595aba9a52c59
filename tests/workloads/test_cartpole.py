"""The CartPole solver in one process: what it plays, and what its check notices."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import pytest
import torch

from workloads import World
from workloads.cartpole import CartPole, check_actions, check_environment, check_update, play
from workloads.cartpole_agent import Agent, Episode, Played, Policy, State

pytestmark = pytest.mark.slow


def world_of(workload: CartPole) -> World:
    return World(rank=0, ranks=tuple(workload.ranks()), seed=7)


class Alone:
    """The solver in one process: the observers play one after the other."""

    def __init__(self, workload: CartPole) -> None:
        self.workload, self.world = workload, world_of(workload)
        self.policy = Policy(workload.hidden, self.world.seed + workload.seed)
        self._agent = Agent(
            self.policy, observers=workload.observers, learning_rate=workload.learning_rate,
            gamma=workload.gamma,
        )  # fmt: skip
        self._env = gymnasium.make("CartPole-v1")

    def run(self, episode: int) -> Episode:
        self._agent.begin_episode(self.workload.noise_of(episode, self.world))
        return self._agent.learn([self._play(episode, n) for n in range(self.workload.observers)])

    def _play(self, episode: int, observer: int) -> Played:
        seed = self.workload.seed_of(episode, observer + 1, self.world)
        select = self._agent.select_action
        return play(self._env, self.workload.steps, seed, lambda state: select(observer, state))


def test_play_takes_exactly_so_many_steps_and_sets_a_fallen_pole_up_again() -> None:
    states: list[State] = []

    def always_left(state: State) -> int:
        states.append(state)
        return 0

    played = play(gymnasium.make("CartPole-v1"), 30, 5, always_left)
    falls = [step for step, end in enumerate(played.ends) if end]
    assert played.rewards == [1.0] * 30
    assert len(states) == len(played.ends) == 30
    assert len(falls) >= 2
    # A pole that has been set up again stands within 0.05 of the middle, almost at rest.
    for step, state in enumerate(states):
        assert (max(map(abs, state)) <= 0.05) == (step == 0 or step - 1 in falls)


def test_seeds_differ_by_episode_and_rank_and_give_other_runs() -> None:
    runs = [Alone(CartPole(seed=seed)).run(0).played for seed in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
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


Change = Callable[[Episode], Episode]


def check_first_observer(episode: Episode, alone: Alone) -> None:
    env, seed = gymnasium.make("CartPole-v1"), alone.workload.seed_of(0, 1, alone.world)
    check_environment("observer1", episode, 0, env, seed)


def check_all_actions(episode: Episode, alone: Alone) -> None:
    check_actions(episode, alone.policy, alone.workload.noise_of(0, alone.world))


def change_first(**changes: list[Any]) -> Change:
    """What the first observer has played."""
    return lambda episode: replace(
        episode, played=[replace(episode.played[0], **changes), episode.played[1]]
    )


def flip_log_prob(episode: Episode) -> Episode:
    log_probs = episode.log_probs.clone()
    log_probs[1, 3] = torch.log1p(-log_probs[1, 3].exp())
    return replace(episode, log_probs=log_probs)


def flip_action(episode: Episode) -> Episode:
    actions = episode.actions.clone()
    actions[1, 3] = 1 - actions[1, 3]
    return replace(flip_log_prob(episode), actions=actions)


def break_parameters(episode: Episode) -> Episode:
    before = {name: value * torch.nan for name, value in episode.parameters_before.items()}
    return replace(episode, parameters_before=before)


@pytest.mark.parametrize(
    ("spoil", "check", "message"),
    [
        (lambda episode: replace(episode, actions=episode.actions.flip(0)), check_first_observer,
         "noted for observer1 do not lead to the states"),
        *((change_first(**changes), check_first_observer, "observer1 gave other rewards")
          for changes in ({"rewards": [1.0] * 19 + [0.0]}, {"ends": [True] + [False] * 19})),
        (flip_log_prob, check_all_actions, "log-probabilities are not those of the actions"),
        (lambda episode: replace(episode, log_probs=episode.log_probs[:, 1:]), check_all_actions,
         r"log-probabilities of shape \(2, 19\)"),
        (flip_action, check_all_actions, "1 actions are not those that the policy draws"),
        (break_parameters, check_all_actions, r"a probability outside of \(0, 1\]"),
    ],
)  # fmt: skip
def test_what_went_wrong_is_noticed(
    episode: Episode, alone: Alone, spoil: Change, check: Callable[[Episode, Alone], None],
    message: str,
) -> None:  # fmt: skip
    check(episode, alone)
    with pytest.raises(AssertionError, match=message):
        check(spoil(episode), alone)


def test_a_lost_update_and_parameters_that_are_no_numbers_are_noticed(
    episode: Episode, alone: Alone
) -> None:
    check_update(episode, alone.policy)
    policy = Policy(alone.workload.hidden, seed=0)
    policy.load_state_dict(episode.parameters_before)
    with pytest.raises(AssertionError, match="the update did not change the policy"):
        check_update(episode, policy)
    policy.load_state_dict(break_parameters(episode).parameters_before)
    with pytest.raises(AssertionError, match=r"hidden.weight is not finite after the update"):
        check_update(episode, policy)
