"""The CartPole solver in one process, to compare worlds with."""

import gymnasium

from workloads import World
from workloads.cartpole import CartPole, play
from workloads.cartpole_agent import Agent, Episode, Played, Policy


def world_of(workload: CartPole) -> World:
    return World(rank=0, ranks=tuple(workload.ranks()), seed=7)


class Alone:
    """The same in one process: the observers play one after the other."""

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
