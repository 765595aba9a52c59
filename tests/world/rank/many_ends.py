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
from tuner.world.rank.task import LOOPBACK

THREADS = 8


class AskedAlways(thread_states.Prober):
    """One that is asked anew whenever it looks."""

    _numbers = itertools.count()

    def _asked(self) -> str:
        return f"{next(self._numbers)} "


os.environ |= LOOPBACK
thread_states._PROBE_POLL_S = 0.0
codes: Counter[int] = Counter()
for _ in range(int(sys.argv[1])):
    with tempfile.TemporaryDirectory() as folder:
        if (pid := os.fork()) == 0:
            options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store")
            rpc.init_rpc("worker", rank=0, world_size=1, rpc_backend_options=options)  # type: ignore[no-untyped-call]
            for _ in range(THREADS):
                AskedAlways(Path(folder), dict, lambda *event, **facts: None).begin("worker", 0)
            time.sleep(0.05)
            sys.exit(0)
        codes[os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])] += 1
print(json.dumps(codes))
