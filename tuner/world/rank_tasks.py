"""From the order of a world to the task of each of its ranks."""

from collections.abc import Iterator
from pathlib import Path

from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.launcher import WorldOrder
from tuner.world.rank.task import RankTask


def rank_tasks(order: WorldOrder, scratch: Path) -> Iterator[RankTask]:
    """The task of each rank of the world, in rank order."""
    spec, folder = order.subject, Path.cwd()
    assert isinstance(spec, WorkloadSpec), "subject_of took no program"
    for rank, rank_spec in enumerate(spec.ranks):
        values = order.config.for_role(rank_spec.role)
        intra_op_threads = values.get(INTRA_OP_THREADS.name, spec.intra_op_threads)
        assert isinstance(intra_op_threads, int)
        yield RankTask(
            rank=rank,
            ranks=tuple((each.name, each.role) for each in spec.ranks),
            reference=spec.reference,
            options=spec.options,
            values=values,
            intra_op_threads=intra_op_threads,
            place=(rank, len(spec.ranks)),
            seed=order.seed,
            steps=order.steps,
            min_time_s=order.min_time_s,
            trace=order.trace,
            folder=folder,
            scratch=scratch,
        )
