"""The CartPole solver, as a workload of one's own that keeps what the shipped one forgets."""

import json
from pathlib import Path

from workloads import World
from workloads.cartpole import CartPole


class Learning(CartPole):
    """The CartPole solver, which writes down the mean reward of a pole in each episode."""

    path: str = "rewards.json"
    """The file to write."""

    def teardown(self, world: World) -> None:
        """Write the file, from the agent."""
        if world.role == "agent":
            Path(self.path).write_text(json.dumps(list(self.mean_rewards)))
        super().teardown(world)
