"""Children by os.fork, before torch was used."""

import os

import torch.distributed.rpc as rpc


def name_of(number: int) -> str:
    return f"{number}"


def work(rank: int) -> None:
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 0:
        assert [rpc.rpc_sync("worker1", name_of, args=(n,)) for n in range(3)] == ["0", "1", "2"]
        print("calls: 3", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")
    child = os.fork()
    work(1 if child == 0 else 0)
    if child:
        os.waitpid(child, 0)
