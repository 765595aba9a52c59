"""What differs between the settings of a study that count, counted once for all figures."""

from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.plan.dimensions import varying
from tuner.plan.knobs import NUM_WORKER_THREADS, Value
from tuner.study.answer import StudyAnswer


def varying_dimensions(answer: StudyAnswer) -> dict[Dimension, tuple[Value, ...]]:
    """The dimensions that differ between settings that count, each with its values."""
    rows = sorted((row for row in answer.rows if row.counts), key=lambda row: row.trial)
    return varying([Config.from_json(row.config) for row in rows], answer.plan.workload)


def threads_dimension(answer: StudyAnswer) -> Dimension | None:
    """The number of worker threads that varies; None if none does.

    Of several it is one of a role that does not drive, for that one serves the calls; of these
    the one with the most values.
    """
    found = varying_dimensions(answer)
    driver = answer.plan.workload.roles[0]

    def rank(dimension: Dimension) -> tuple[bool, int, bool]:
        return dimension.role != driver, len(found[dimension]), dimension.role != ALL_ROLES

    threads = [dimension for dimension in found if dimension.knob == NUM_WORKER_THREADS.name]
    return max(threads, key=rank, default=None)
