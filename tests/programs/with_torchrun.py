"""For torchrun: rank and world size from the environment."""

import os

import torch.distributed.rpc as rpc


def square(number: int) -> int:
    return number * number


def main() -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
    if rank == 0:
        others = [rpc.rpc_async(f"worker{to}", square, args=(to,)) for to in range(1, world_size)]
        assert [future.wait() for future in others] == [to * to for to in range(1, world_size)]
        print(f"calls: {len(others)}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    main()
