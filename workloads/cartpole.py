"""The batch-processing CartPole solver of PyTorch's tutorial."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import torch
import torch.distributed.rpc as rpc
from pydantic import Field
from torch.func import functional_call
from torch.futures import Future

from workloads.cartpole_agent import (
    Agent,
    Episode,
    Noise,
    Played,
    Policy,
    State,
    log_probs_of,
    mean_reward,
)
from workloads.contract import Rank, Workload, World
from workloads.device import Device, missing_device
from workloads.needs import GYMNASIUM
from workloads.typed_rpc import async_execution

try:
    import gymnasium
except ModuleNotFoundError:  # CartPole.problems() says so
    gymnasium = None  # type: ignore[assignment]

KEPT_MEAN_REWARDS = 10_000
# Between a probability that is computed for one state, and for many in one pass.
ROUNDING = 1e-4


def play(
    env: "gymnasium.Env[Any, Any]", steps: int, seed: int, choose: Callable[[State], int]
) -> Played:
    """Take exactly `steps` steps; a pole that falls is set up again."""
    played = Played([], [])
    state, _ = env.reset(seed=seed)
    for _ in range(steps):
        state, reward, terminated, truncated, _ = env.step(choose(state.tolist()))
        played.rewards.append(float(reward))
        played.ends.append(terminated or truncated)
        if played.ends[-1]:
            state, _ = env.reset()
    return played


class Observer:
    """Plays in an environment of its own; it asks the agent for every action."""

    def __init__(self, world: World, *, steps: int, batch: bool) -> None:
        (self._agent,) = world.names("agent")
        self._index = world.names("observer").index(world.name)
        self._select = select_action_batch if batch else select_action
        self._steps = steps
        self._env = gymnasium.make("CartPole-v1")

    def run_episode(self, seed: int) -> Played:
        """Play one episode."""
        return play(self._env, self._steps, seed, self.ask)

    def ask(self, state: State) -> int:
        """The agent's action in this state."""
        action: int = rpc.rpc_sync(self._agent, self._select, args=(self._index, state))
        return action


_agent: Agent | None = None
_observer: Observer | None = None


def run_episode(seed: int) -> Played:
    """Served by an observer."""
    assert _observer is not None
    return _observer.run_episode(seed)


def select_action(observer: int, state: State) -> int:
    """Served by the agent."""
    assert _agent is not None
    return _agent.select_action(observer, state)


@async_execution
def select_action_batch(observer: int, state: State) -> Future[int]:
    """Served by the agent, which answers once all observers have called."""
    assert _agent is not None
    return _agent.select_action_batch(observer, state)


def check_environment(
    name: str, episode: Episode, observer: int, env: "gymnasium.Env[Any, Any]", seed: int
) -> None:
    """Raise unless the noted actions lead to the noted states and rewards in a new environment."""
    states: list[State] = []
    actions = iter(episode.actions[observer].tolist())

    def choose(state: State) -> int:
        states.append(state)
        return int(next(actions))

    played = play(env, episode.actions.shape[1], seed, choose)
    if states != episode.states[observer].tolist():
        raise AssertionError(f"the actions noted for {name} do not lead to the states noted for it")
    if played != episode.played[observer]:
        raise AssertionError(f"{name} gave other rewards than an environment gives for its actions")


def check_actions(episode: Episode, policy: Policy, noise: Noise) -> None:
    """Raise unless the policy takes the noted actions, as it was then and with the same noise."""
    both = functional_call(policy, episode.parameters_before, (episode.states, noise.masks))
    if not (both.isfinite() & (both <= 0)).all():
        raise AssertionError("the policy gave a probability outside of (0, 1]")
    expected = log_probs_of(episode.actions, both)
    if episode.log_probs.shape != expected.shape:
        raise AssertionError(
            f"log-probabilities of shape {tuple(episode.log_probs.shape)} for actions of shape "
            f"{tuple(expected.shape)}"
        )
    if not torch.allclose(episode.log_probs, expected, atol=ROUNDING):
        raise AssertionError("log-probabilities are not those of the actions taken")
    distance = noise.uniforms - both[..., 1].exp()
    wrong = (distance.abs() > ROUNDING) & ((distance < 0) != episode.actions.bool())
    if wrong.any():
        raise AssertionError(f"{wrong.sum()} actions are not those that the policy draws")


def check_update(episode: Episode, policy: Policy) -> None:
    """Raise unless the update changed the parameters and left them finite."""
    after = dict(policy.named_parameters())
    for name, parameter in after.items():
        if not parameter.isfinite().all():
            raise AssertionError(f"{name} is not finite after the update")
    if all(torch.equal(after[name], value) for name, value in episode.parameters_before.items()):
        raise AssertionError("the update did not change the policy")


class CartPole(Workload):
    """A CartPole solver: the agent has observers play, and they call it back for every action.

    An observer waits for the agent in a served function, so with one worker thread it deadlocks.
    """

    observers: Annotated[int, Field(ge=1)] = 4
    """Processes that play, each in an environment of its own."""
    batch: bool = True
    """Whether the agent answers all observers by one forward pass, or each by its own pass."""
    steps: Annotated[int, Field(ge=2)] = 50
    """Environment steps of each observer in an episode; a pole that falls is set up again."""
    gamma: Annotated[float, Field(ge=0.01, le=1)] = 0.99
    """The discount of rewards, per step."""
    learning_rate: Annotated[float, Field(ge=1e-5, le=1)] = 0.01
    """Adam's."""
    hidden: Annotated[int, Field(ge=1)] = 128
    """Size of the policy's hidden layer."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Added to the plan's seed."""
    device: Device = "cpu"
    """Where the policy lives."""

    _last: Episode

    def problems(self) -> Sequence[str]:
        """Gymnasium is an extra, and there may be no GPU."""
        missing = [] if gymnasium else [GYMNASIUM]
        return [*missing, *missing_device(self.device)]

    def ranks(self) -> Sequence[Rank]:
        """One agent, and its observers."""
        observers = [Rank(f"observer{n}", "observer") for n in range(1, self.observers + 1)]
        return [Rank("agent", "agent"), *observers]

    def setup(self, world: World) -> None:
        """The agent with its policy, or an observer with its environment."""
        global _agent, _observer
        if world.role == "observer":
            _observer = Observer(world, steps=self.steps, batch=self.batch)
            return
        _agent = Agent(
            Policy(self.hidden, world.seed + self.seed).to(self.device),
            observers=self.observers,
            learning_rate=self.learning_rate,
            gamma=self.gamma,
        )
        self.episodes = 0
        self.mean_rewards: deque[float] = deque(maxlen=KEPT_MEAN_REWARDS)

    def step(self, world: World) -> None:
        """One episode of all observers, and one update of the policy."""
        assert _agent is not None
        _agent.begin_episode(self.noise_of(self.episodes, world))
        futures = [
            rpc.rpc_async(name, run_episode, args=(self.seed_of(self.episodes, rank, world),))
            for rank, name in enumerate(world.names("observer"), start=1)
        ]
        self._last = _agent.learn([future.wait() for future in futures])
        self.mean_rewards.append(mean_reward(self._last.played))
        self.episodes += 1

    def seed_of(self, episode: int, rank: int, world: World) -> int:
        """The seed of what a rank draws in an episode."""
        entropy = np.random.SeedSequence((world.seed + self.seed, episode, rank))
        return int(entropy.generate_state(1)[0])

    def noise_of(self, episode: int, world: World) -> Noise:
        """The agent's noise in an episode."""
        return Noise.draw(
            (self.observers, self.steps),
            self.hidden,
            self.seed_of(episode, 0, world),
            torch.device(self.device),
        )

    def check(self, world: World) -> None:
        """The last episode follows from its seeds and its policy, and it changed the policy."""
        assert _agent is not None
        env, episode = gymnasium.make("CartPole-v1"), self.episodes - 1
        for rank, name in enumerate(world.names("observer"), start=1):
            seed = self.seed_of(episode, rank, world)
            check_environment(name, self._last, rank - 1, env, seed)
        check_actions(self._last, _agent.policy, self.noise_of(episode, world))
        check_update(self._last, _agent.policy)

    def teardown(self, world: World) -> None:
        """Forget the agent or the observer."""
        global _agent, _observer
        _agent = _observer = None
