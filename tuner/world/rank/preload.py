"""Imported once by the forkserver, so that no rank has to: torch, and what its RPC loads late.

Nothing here may start a thread or run an operator: neither survives a fork.
"""

import atexit
import gc
import json
import os
import warnings

import torch.distributed.rpc.rref_proxy  # noqa: F401

from tuner.workloads_package import own_workloads
from tuner.world.descendants import end_descendants, keep_orphans
from tuner.world.rank.entry import RESTORED, restore


def _end_all(forkserver: int) -> None:
    """In the forkserver, whose launcher is gone: kill the ranks, and all that they started."""
    if os.getpid() == forkserver:
        end_descendants(forkserver)


# The launcher has changed them for this process's own imports.
restore(json.loads(os.environ.pop(RESTORED, "{}")))
own_workloads()  # before those who import it by its name
import tuner.world.rank.describe  # noqa: E402
import tuner.world.rank.run_rank  # noqa: E402, F401

keep_orphans()
# Otherwise it warns on the terminal of each orphan that has ended.
warnings.filterwarnings("ignore", message="forkserver: waitpid returned unexpected pid")
atexit.register(_end_all, os.getpid())
# A garbage collection in a rank would write to every object's header, and so copy every page
# that the rank shares with the forkserver.
gc.collect()
gc.freeze()
