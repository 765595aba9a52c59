"""For torchrun, with a tcp:// address of its own: all ranks wait for one that never listens."""

import os

import torch.distributed.rpc as rpc


def main() -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:29611")
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size, rpc_backend_options=options)
    rpc.shutdown()


if __name__ == "__main__":
    main()
