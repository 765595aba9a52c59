"""`python -m tests.world.rank.many_ends TIMES`: ranks that end in the middle of many probes.

Prints how often which exit code came, as JSON; one that is negative is a signal's.
"""

import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch.distributed.rpc as rpc

from tuner.world.rank import thread_states

THREADS = 8


class AskedAlways(thread_states.Prober):
    """One that is asked anew whenever it looks."""

    _numbers = itertools.count()

    def _asked(self) -> str:
        return f"{next(self._numbers)} "


def end_in_the_middle(folder: Path) -> None:
    os.environ.update(TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store")
    rpc.init_rpc("worker", rank=0, world_size=1, rpc_backend_options=options)  # type: ignore[no-untyped-call]
    for _ in range(THREADS):
        AskedAlways(folder / "request", dict, lambda *event, **facts: None).begin("worker", 0)
    time.sleep(0.05)


def main(times: int) -> None:
    thread_states._PROBE_POLL_S = 0.0
    codes: Counter[int] = Counter()
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            if (pid := os.fork()) == 0:
                end_in_the_middle(Path(folder))
                sys.exit(0)
            codes[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])] += 1
    print(json.dumps(codes))


if __name__ == "__main__":
    main(int(sys.argv[1]))
