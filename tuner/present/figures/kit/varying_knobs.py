"""The knobs that vary in a study, as all of its figures see them."""

from tuner.plan.config import ALL_ROLES, Dimension
from tuner.plan.dimensions import varying
from tuner.plan.knobs import NUM_WORKER_THREADS, Value
from tuner.study.answer import StudyAnswer


def varying_dimensions(answer: StudyAnswer) -> dict[Dimension, tuple[Value, ...]]:
    """The dimensions that differ between the measured configurations, each with its values."""
    rows = sorted((row for row in answer.rows if row.is_measured), key=lambda row: row.trial)
    return varying([row.config for row in rows], answer.plan.subject)


def threads_dimension(answer: StudyAnswer) -> Dimension | None:
    """The number of worker threads that varies; None if none does.

    Where several vary, one of a role that serves calls is taken before the driver's, and of these
    the one with the most values.
    """
    found = varying_dimensions(answer)
    driver = answer.plan.subject.roles[0]

    def rank(dimension: Dimension) -> tuple[bool, int, bool]:
        return dimension.role != driver, len(found[dimension]), dimension.role != ALL_ROLES

    threads = [dimension for dimension in found if dimension.knob == NUM_WORKER_THREADS.name]
    return max(threads, key=rank, default=None)
