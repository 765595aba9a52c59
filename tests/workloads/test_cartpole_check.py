"""What the CartPole solver's check notices, and the environment that it is about."""

from dataclasses import replace

import gymnasium
import pytest
import torch

from tests.workloads.cartpole_alone import Alone
from workloads.cartpole import CartPole, check_actions, check_environment, check_update, play
from workloads.cartpole_agent import Episode, Played, Policy, State

pytestmark = pytest.mark.slow

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
