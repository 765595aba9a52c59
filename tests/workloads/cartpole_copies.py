"""Copies of the CartPole solver: two with a fault, and one that leaves its history.

The processes of a world import this module: it imports nothing that only tests need.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from workloads import World, cartpole, cartpole_agent
from workloads.cartpole import CartPole
from workloads.cartpole_agent import Agent, State


class SwappingAgent(Agent):
    """Gives the first two observers of a batch each other's action."""

    def _act(self, rows: slice, states: Sequence[State]) -> list[int]:
        first, second, *others = super()._act(rows, states)
        return [second, first, *others]


class SwappedActions(CartPole):
    def setup(self, world: World) -> None:
        vars(cartpole)["Agent"] = SwappingAgent
        super().setup(world)


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
