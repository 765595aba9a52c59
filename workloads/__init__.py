"""Workloads: programs that use `torch.distributed.rpc`, and what a tuner asks of one.

A workload is a class derived from `Workload`. Only `ranks` and `step` must be written.
Its options are the annotated attributes of its class, each with a default:

    class Echo(Workload):
        '''Sends numbers there and back.'''

        calls: int = 4
        '''Calls in flight in each step.'''
"""

from workloads.contract import Rank, Workload, WorkloadError, World

__all__ = ["Rank", "Workload", "WorkloadError", "World"]
