"""The functions that a new process starts in.

The launcher names them without importing torch; the process that runs them has it preloaded.
"""

from collections.abc import Mapping
from multiprocessing.connection import Connection

from tuner.world.rank_task import RankTask

PRELOADED = "tuner.world.preload"


def start_rank(task: RankTask, connection: Connection) -> None:
    """Run one rank of a world."""
    from tuner.world.rank import run_rank

    run_rank(task, connection)


def start_describing(reference: str, options: Mapping[str, object], answer: Connection) -> None:
    """Describe a workload."""
    from tuner.world.describe import describe

    describe(reference, options, answer)
