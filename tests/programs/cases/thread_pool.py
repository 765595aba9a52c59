# A client hands its calls to a pool of threads. Truth: each of 15 steps makes 16 calls of 8 ms from a pool of 8 threads,
# and waits for all. With 2 threads on the server (as here) 64 ms a step; with 1 128 ms; with 4 32 ms; with 8 or more
# 16 ms, since no more than 8 calls are made at once.
import os, time
from concurrent.futures import ThreadPoolExecutor
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
T = int(os.environ.get("THREADS", "2"))
def look_up(key):
    time.sleep(0.008)
    return key
def go(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="41057")
    o = rpc.TensorPipeRpcBackendOptions(num_worker_threads=T)
    rpc.init_rpc(["client", "server"][rank], rank=rank, world_size=2, rpc_backend_options=o)
    if rank == 0:
        total = 0
        with ThreadPoolExecutor(8) as pool:
            for step in range(15):
                total += sum(pool.map(lambda key: rpc.rpc_sync("server", look_up, args=(key,)), range(16)))
        print("sum", total, flush=True)  # 1800
    rpc.shutdown()
if __name__ == "__main__":
    mp.start_processes(go, start_method="fork", nprocs=2)
