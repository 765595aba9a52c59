"""Workloads: programs that use `torch.distributed.rpc`, and what a tuner asks of one.

A workload is a class derived from `Workload`. Only `ranks` and `step` must be written.
Its options are the annotated attributes of its class, each with a default; pydantic's limits hold:

    class Echo(Workload):
        '''Sends numbers there and back.'''

        calls: Annotated[int, Field(ge=1)] = 4
        '''Calls in flight in each step.'''

        device: Literal["cpu", "cuda"] = "cpu"
        '''Where the numbers live.'''
"""

from workloads.contract import Rank, Workload, WorkloadError, World

__all__ = ["Rank", "Workload", "WorkloadError", "World"]
