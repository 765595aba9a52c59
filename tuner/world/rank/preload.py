"""Imported once by the forkserver, so that no rank pays for it: torch, and what its RPC loads late.

Nothing here may start a thread or run an operator: both do not survive a fork.
"""

import gc

import torch.distributed.rpc.rref_proxy  # noqa: F401

import tuner.world.rank.describe
import tuner.world.rank.main  # noqa: F401

# A garbage collection in a rank would write to every object's header, and so copy every page
# that the rank shares with the forkserver.
gc.collect()
gc.freeze()
