"""One process per shell: `by_rank.py --rank 0` in one, `by_rank.py --rank 1` in another."""

import argparse
import os

import torch
import torch.distributed.rpc as rpc


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--master-port", default="29500")
    given = parser.parse_args()
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", given.master_port
    name = "ps" if given.rank == 0 else f"trainer{given.rank}"
    rpc.init_rpc(name, rank=given.rank, world_size=given.world_size)
    if given.rank > 0:
        for _ in range(20):
            rpc.rpc_sync("ps", torch.add, args=(torch.ones(2), 1))
        print("calls: 20", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    main()
