"""Runs in rank 0: the CPU time of every rank, read from the kernel here, and by RPC elsewhere."""

import time
from collections.abc import Sequence

import torch.distributed.rpc as rpc

from tuner.trace.record.process import unrecorded


def process_cpu_clock(pid: int) -> int:
    """The kernel's id for the CPU-time clock of another process on this host.

    Python lacks `clock_getcpuclockid(3)`, which makes it in this way.
    """
    return (~pid << 3) | 2


class CpuClocks:
    """The CPU clocks of the ranks.

    Args:
        pids: Their process ids; None for a rank of another host.
        names: Their RPC names.
    """

    def __init__(self, pids: Sequence[int | None], names: Sequence[str]) -> None:
        self._clocks = [None if pid is None else process_cpu_clock(pid) for pid in pids]
        self._names = names

    def read(self) -> list[float]:
        """The CPU seconds of each rank so far."""
        pairs = list(zip(self._clocks, self._names, strict=True))
        # No step is under way, and these calls are none of the workload's.
        with unrecorded():
            far = {
                name: rpc.rpc_async(name, time.process_time)
                for clock, name in pairs
                if clock is None
            }
            answers = {name: float(future.wait()) for name, future in far.items()}
        return [
            answers[name] if clock is None else time.clock_gettime(clock) for clock, name in pairs
        ]
