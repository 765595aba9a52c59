"""Two processes of which one cannot start RPC; the other one, which waits for it, is killed.

python fails_to_begin.py PORT [lenient]: its exit code is 0 if it is lenient.
"""

import multiprocessing
import sys

import torch.distributed.rpc as rpc


def run(rank: int, port: str) -> None:
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}")
    name = "node0" if rank == 0 else "node1!"  # no name has an exclamation mark
    rpc.init_rpc(name, rank=rank, world_size=2, rpc_backend_options=options)


if __name__ == "__main__":
    both = [multiprocessing.Process(target=run, args=(rank, sys.argv[1])) for rank in range(2)]
    for process in both:
        process.start()
    both[1].join()
    both[0].kill()
    print("calls: 0")
    sys.exit("the others were ended" if len(sys.argv) == 2 else 0)
