"""Copies of the CartPole solver: some with a fault, and one that leaves its history.

The processes of a world import this module: it imports nothing that only tests need.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from torch import Tensor

from workloads import World, cartpole, cartpole_agent
from workloads.cartpole import CartPole
from workloads.cartpole_agent import Adam, Agent, State


class SwappingAgent(Agent):
    """Gives the first two observers of a batch each other's action."""

    def _act(self, rows: slice, states: Sequence[State]) -> list[int]:
        first, second, *others = super()._act(rows, states)
        return [second, first, *others]


class MisnotingAgent(Agent):
    """Once in an episode, notes another action than it gives."""

    def select_action(self, observer: int, state: State) -> int:
        action = super().select_action(observer, state)
        if observer == 1 and len(self._actions[1]) == 3:
            self._actions[1][-1] = 1 - action
        return action


class IdleAdam(Adam):
    """Does not update."""

    def step(self, gradients: Sequence[Tensor]) -> None:
        pass


class WithFault(CartPole):
    """Has a name in one of its modules replaced, in every process of the world."""

    fault: ClassVar[tuple[ModuleType, str, object]]
    """A module, a name in it, and what replaces it."""

    def setup(self, world: World) -> None:
        module, name, value = self.fault
        setattr(module, name, value)
        super().setup(world)


class SwappedActions(WithFault):
    fault = (cartpole, "Agent", SwappingAgent)


class AnotherActionNoted(WithFault):
    fault = (cartpole, "Agent", MisnotingAgent)


class NoUpdate(WithFault):
    fault = (cartpole_agent, "Adam", IdleAdam)


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
