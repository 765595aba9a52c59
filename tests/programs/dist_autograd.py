"""Half of a model lives on a parameter server: distributed autograd and its optimizer train it."""

import os
import sys
import time

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.optim import DistributedOptimizer
from torch.distributed.rpc import RRef

STEPS = 20
SIZE = 500


class Half(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(SIZE, SIZE) for _ in range(4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layers(x)
        return out

    def parameter_rrefs(self) -> "list[RRef[torch.nn.Parameter]]":
        return [RRef(parameter) for parameter in self.parameters()]


def train() -> None:
    there = rpc.remote("ps", Half)
    here = Half()
    rrefs = there.rpc_sync().parameter_rrefs() + here.parameter_rrefs()
    optimizer = DistributedOptimizer(torch.optim.SGD, rrefs, lr=0.01)
    times_s = [0.0, 0.0, 0.0]
    for _ in range(STEPS):
        with dist_autograd.context() as context_id:
            began_s = time.perf_counter()
            half = there.rpc_sync().forward(torch.ones(64, SIZE))
            called_s = time.perf_counter()
            loss = here(half).pow(2).sum()
            computed_s = time.perf_counter()
            dist_autograd.backward(context_id, [loss])
            passed_s = time.perf_counter()
            optimizer.step(context_id)
            times_s[0] += called_s - began_s
            times_s[1] += passed_s - computed_s
            times_s[2] += time.perf_counter() - passed_s
    for what, time_s in zip(("forward", "backward", "step"), times_s, strict=True):
        print(f"{what} took {time_s:.3f} s", flush=True)


def run(rank: int, port: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    rpc.init_rpc("trainer" if rank == 0 else "ps", rank=rank, world_size=2)
    if rank == 0:
        train()
    rpc.shutdown()


if __name__ == "__main__":
    mp.spawn(run, args=(sys.argv[1],), nprocs=2)
