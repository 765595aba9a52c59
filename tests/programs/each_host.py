"""One process a host, as people start them under torchrun or a cluster: env:// or ADDRESS."""

import os
import sys
import time

import torch
import torch.distributed.rpc as rpc


def double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 2


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    options = rpc.TensorPipeRpcBackendOptions(init_method=[*sys.argv, "env://"][1])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    if rank == 0:
        calls = 0
        for _ in range(50):
            for other in range(1, size):
                assert float(rpc.rpc_sync(f"worker{other}", double, args=(torch.ones(1),))) == 2
                calls += 1
            time.sleep(0.002)
        print(f"calls: {calls}")
    rpc.shutdown()
    namespace = os.readlink("/proc/self/ns/net")  # noqa: PTH115
    local = [os.environ[name] for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE")]
    interface = os.environ.get("TP_SOCKET_IFNAME")
    place = f"{' of '.join(local)} here, in {namespace} by {interface}"
    cpus = sorted(os.sched_getaffinity(0))
    # Whole, where several processes print into one pipe.
    os.write(1, f"rank {rank} of {size}, {place}, on CPUs {cpus}\n".encode())


if __name__ == "__main__":
    main()
