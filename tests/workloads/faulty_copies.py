"""Copies of shipped workloads with a fault each.

The processes of a world import this module: it imports nothing that only tests need.
"""

from workloads import World, cartpole_agent, parameter_server
from workloads.cartpole import CartPole
from workloads.models import Batch
from workloads.parameter_server import ParameterServer


class NoUpdate(CartPole):
    def setup(self, world: World) -> None:
        cartpole_agent.Adam.step = lambda *_: None  # type: ignore[method-assign]
        super().setup(world)


class Losing(ParameterServer):
    """As when two threads add to the same sum, and one overwrites what the other has added."""

    def setup(self, world: World) -> None:
        super().setup(world)
        if world.role == "server":
            collect = parameter_server._server.collect
            parameter_server._server.collect = (  # type: ignore[method-assign]
                lambda trainer, gradients: collect(trainer, [0 * each for each in gradients])
            )


class WithABadLabel(ParameterServer):
    """The last trainer cannot compute its gradients, and the others wait for them."""

    def batches(self, seed: int, trainer: int) -> list[Batch]:
        batches = super().batches(seed, trainer)
        if trainer == self.trainers:
            batches[0].labels[0] = 99
        return batches
