"""The CartPole solver in one process; copies of it: two with a fault, one that leaves its history.

The processes of a world import this module: it imports nothing that only tests need.
"""

import json
from pathlib import Path

import gymnasium

from workloads import World, cartpole_agent
from workloads.cartpole import CartPole, play
from workloads.cartpole_agent import Agent, Episode, Played, Policy


def world_of(workload: CartPole) -> World:
    return World(rank=0, ranks=tuple(workload.ranks()), seed=7)


class Alone:
    """In one process: the observers play one after the other."""

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


class NoUpdate(CartPole):
    def setup(self, world: World) -> None:
        cartpole_agent.Adam.step = lambda *_: None  # type: ignore[method-assign]
        super().setup(world)


class Recorded(CartPole):
    """Leaves its agent's history in a file."""

    path: str = ""
    """Path of the file."""

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
