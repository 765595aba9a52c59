import random
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.futures import Future

from workloads.cartpole_agent import (
    Adam,
    Agent,
    Noise,
    Played,
    Policy,
    discounted_returns,
    mean_reward,
    sample_actions,
    standardised,
)

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
HIDDEN = 8


def an_agent(observers: int = 3, steps: int = 5) -> Agent:
    agent = Agent(Policy(HIDDEN, seed=1), observers=observers, learning_rate=0.01, gamma=0.9)
    agent.begin_episode(Noise.draw((observers, steps), HIDDEN, seed=2, device=CPU))
    return agent


def states_of(observers: int, steps: int) -> list[list[list[float]]]:
    """[step][observer]: a state."""
    generator = torch.Generator().manual_seed(3)
    states: list[list[list[float]]] = torch.randn(steps, observers, 4, generator=generator).tolist()
    return states


def played_for(steps: int, *ends: int) -> Played:
    """A reward of 1 in every step, and a pole that falls in the steps `ends`."""
    return Played([1.0] * steps, [step in ends for step in range(steps)])


# The policy.


def test_noise_drops_out_six_of_ten_units_and_scales_the_rest() -> None:
    noise = Noise.draw((3, 200), 100, seed=4, device=CPU)
    assert noise.masks.shape == (3, 200, 100)
    assert noise.uniforms.shape == (3, 200)
    assert sorted(set(noise.masks.flatten().tolist())) == pytest.approx([0, 2.5])
    assert noise.masks.mean().item() == pytest.approx(1, abs=0.03)
    assert 0 <= noise.uniforms.min().item() < noise.uniforms.max().item() < 1
    first, again, other = (Noise.draw((2, 3), HIDDEN, seed, CPU) for seed in (4, 4, 5))
    assert torch.equal(first.masks, again.masks)
    assert torch.equal(first.uniforms, again.uniforms)
    assert not torch.equal(first.uniforms, other.uniforms)


def test_actions_come_as_often_as_they_are_probable() -> None:
    policy, rows = Policy(HIDDEN, seed=5), 20_000
    state = [0.1, -0.2, 0.3, 0.4]
    probability = policy(torch.tensor(state), torch.ones(HIDDEN))[1].exp().item()
    uniforms = torch.rand(rows, generator=torch.Generator().manual_seed(6))
    actions = sample_actions(policy, [state] * rows, torch.ones(rows, HIDDEN), uniforms)
    assert set(actions) == {0, 1}
    assert sum(actions) / rows == pytest.approx(probability, abs=0.02)


# What the agent learns from.


def test_returns_are_discounted_and_do_not_flow_back_over_an_end() -> None:
    assert discounted_returns(Played([1, 2, 4], [False] * 3), 0.5) == [3, 4, 4]
    assert discounted_returns(played_for(5, 1), 0.5) == [1.5, 1, 1.75, 1.5, 1]
    assert mean_reward([played_for(6, 1), played_for(6, 2, 5)]) == 12 / 4
    assert mean_reward([played_for(6)]) == 6  # the pole still stands
    assert standardised(torch.ones(2, 2)).tolist() == [[0, 0], [0, 0]]


def test_the_later_steps_of_adam_are_those_of_torch_too() -> None:
    ours, theirs = (torch.linspace(-1, 1, 6).view(2, 3).requires_grad_() for _ in range(2))
    adam, reference = Adam([ours], 0.02), torch.optim.Adam([theirs], lr=0.02)
    for _ in range(5):
        adam.step(torch.autograd.grad((ours**3).sum(), [ours]))
        theirs.grad = torch.autograd.grad((theirs**3).sum(), [theirs])[0]
        reference.step()
    assert torch.equal(ours, theirs)


# The agent.


def actions_of(agent: Agent, steps: int = 5) -> list[list[int]]:
    """[step][observer]: what the agent answers, when they ask in turn."""
    return [
        [agent.select_action(observer, state) for observer, state in enumerate(states)]
        for states in states_of(agent._observers, steps)
    ]


def test_a_batch_gives_what_single_requests_give_whoever_asks_first() -> None:
    single = actions_of(an_agent())
    assert {action for step in single for action in step} == {0, 1}
    agent, shuffled = an_agent(), random.Random(7)
    for states, actions in zip(states_of(3, 5), single, strict=True):
        futures: dict[int, Future[int]] = {}
        for each in shuffled.sample(range(3), 3):
            assert not any(future.done() for future in futures.values())
            futures[each] = agent.select_action_batch(each, states[each])
        assert [futures[each].wait() for each in range(3)] == actions


def test_a_batch_is_safe_with_a_thread_per_observer() -> None:
    agent, states = an_agent(8, 50), states_of(8, 50)

    def ask(observer: int) -> list[int]:
        return [agent.select_action_batch(observer, state[observer]).wait() for state in states]

    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(ask, range(8))]
    assert [[*step] for step in zip(*found, strict=True)] == actions_of(an_agent(8, 50), 50)


def test_a_failure_is_told_to_all_who_wait() -> None:
    agent = an_agent(observers=2)
    first = agent.select_action_batch(0, [0.0] * 4)
    second = agent.select_action_batch(1, [0.0] * 5)
    for answer in (first, second):
        with pytest.raises(ValueError, match="expected sequence of length 4"):
            answer.wait()


def test_an_update_is_one_step_of_reinforce() -> None:
    agent, noise = an_agent(), Noise.draw((3, 5), HIDDEN, seed=2, device=CPU)
    actions = torch.tensor(actions_of(agent)).T
    states = torch.tensor(states_of(3, 5)).transpose(0, 1)
    played = [played_for(5, end) for end in (1, 3, 4)]
    expected = Policy(HIDDEN, seed=1)
    optimizer = torch.optim.Adam(expected.parameters(), lr=0.01)
    log_probs = expected(states, noise.masks).gather(2, actions[..., None]).flatten()
    returns = torch.tensor([each for one in played for each in discounted_returns(one, 0.9)])
    advantages = (returns - returns.mean()) / returns.std()
    (-log_probs * advantages).mean().backward()
    optimizer.step()
    episode = agent.learn(played)
    assert torch.allclose(episode.log_probs.flatten(), log_probs)
    for ours, theirs in zip(agent.policy.parameters(), expected.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    before = dict(Policy(HIDDEN, seed=1).named_parameters())
    assert all(torch.equal(episode.parameters_before[name], before[name]) for name in before)
