"""Trainers send gradients to a parameter server, which updates its model once for all of them.

Written as PyTorch's tutorial on batch RPC processing writes it; it knows nothing of rpc-tuner.
"""

import argparse
import os
import threading

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch import nn


class ParameterServer:
    """Holds the model. Each update waits for the gradients of all trainers, on no thread."""

    def __init__(self, trainers: int) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(256, 256)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.trainers = trainers
        self.lock = threading.Lock()
        self.future_model: torch.futures.Future[nn.Module] = torch.futures.Future()
        self.received = 0

    def get_model(self) -> nn.Module:
        """The model as it is now."""
        return self.model

    @staticmethod
    @rpc.functions.async_execution
    def update(
        server: "rpc.RRef[ParameterServer]", gradients: list[torch.Tensor]
    ) -> "torch.futures.Future[nn.Module]":
        """Add a trainer's gradients; the answer is the model after all of them have come."""
        self = server.local_value()
        with self.lock:
            self.received += 1
            for parameter, gradient in zip(self.model.parameters(), gradients, strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
            answer = self.future_model
            if self.received == self.trainers:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.received, self.future_model = 0, torch.futures.Future()
                answer.set_result(self.model)
        return answer


def train(server: "rpc.RRef[ParameterServer]", number: int, updates: int) -> float:
    """What each trainer does; returns its last loss."""
    generator = torch.Generator().manual_seed(number)
    inputs = torch.randn(64, 256, generator=generator)
    model = server.rpc_sync().get_model()
    for _ in range(updates):
        loss = (model(inputs) - inputs).square().mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        arguments = (server, list(gradients))
        model = rpc.rpc_sync(server.owner(), ParameterServer.update, args=arguments)
    return loss.item()


def run(rank: int, trainers: int, updates: int) -> None:
    """One process: rank 0 is the server, which starts the trainers' loops."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "29500"
    torch.set_num_threads(1)
    name = "ps" if rank == 0 else f"trainer{rank}"
    rpc.init_rpc(name, rank=rank, world_size=trainers + 1)
    if rank == 0:
        server = rpc.RRef(ParameterServer(trainers))
        losses = [
            rpc.rpc_async(f"trainer{number}", train, args=(server, number, updates))
            for number in range(1, trainers + 1)
        ]
        print(f"loss: {sum(future.wait() for future in losses) / trainers:.4f}")
    rpc.shutdown()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainers", type=int, default=3)
    parser.add_argument("--updates", type=int, default=100)
    given = parser.parse_args()
    mp.spawn(run, args=(given.trainers, given.updates), nprocs=given.trainers + 1)
