"""Imported once by the forkserver, so that no rank has to: torch, and what its RPC loads late.

Nothing here may start a thread or run an operator: neither survives a fork.
"""

import gc
import json
import os

import torch.distributed.rpc.rref_proxy  # noqa: F401

from tuner.workloads_package import own_workloads
from tuner.world.rank.entry import RESTORED


def _restore_environment() -> None:
    """Undo what the launcher changed for this process's own imports."""
    for name, value in json.loads(os.environ.pop(RESTORED, "{}")).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _import_ours() -> None:
    own_workloads()  # before those who import it by its name
    import tuner.world.rank.describe
    import tuner.world.rank.main  # noqa: F401


_restore_environment()
_import_ours()
# A garbage collection in a rank would write to every object's header, and so copy every page
# that the rank shares with the forkserver.
gc.collect()
gc.freeze()
