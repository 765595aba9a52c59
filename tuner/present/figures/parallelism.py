"""The figure of the servers' parallelism against their worker threads."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes

from tuner.present.figures.kit.axis import threads_axis
from tuner.present.figures.kit.config_names import threads_dimension
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import legend_above
from tuner.present.figures.kit.theme import MUTED, OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.study.metrics import PARALLELISM_MAX, PARALLELISM_MEAN
from tuner.text import plural, three_digits


class ParallelismPoint(NamedTuple):
    """The parallelism in the trace of one configuration."""

    threads: int
    mean: float
    maximum: float
    """NaN where it is not known."""


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """The parallelism by number of worker threads, few threads first."""

    x_label: str
    points: tuple[ParallelismPoint, ...]
    logical_cpus: int

    @property
    def joined(self) -> bool:
        """Whether each number of threads occurs once, so that a line can join them."""
        return len({point.threads for point in self.points}) == len(self.points)


def parallelism(answer: StudyAnswer) -> Parallelism | None:
    """What the traces tell; None where all traced configurations have as many threads."""
    workload = answer.plan.subject
    dimension = threads_dimension(answer)
    if dimension is None:
        return None
    points = [
        ParallelismPoint(
            int(str(row.config.value_of(dimension, workload))),
            row.metric(PARALLELISM_MEAN),
            row.metric(PARALLELISM_MAX),
        )
        for row in answer.rows
        if row.is_measured and PARALLELISM_MEAN.name in row.metrics
    ]
    if len({point.threads for point in points}) < 2:
        return None
    return Parallelism(
        x_label=str(dimension),
        points=tuple(sorted(points)),
        logical_cpus=answer.environment.cpu_count,
    )


def draw_parallelism(shown: Parallelism, axes: Axes) -> None:
    """Mean and maximum, beside the line of one call per thread and that of the logical CPUs."""
    threads = [point.threads for point in shown.points]
    axes.plot(
        threads, [point.maximum for point in shown.points], marker="^", markersize=6,
        markerfacecolor="none", linestyle=":" if shown.joined else "none", linewidth=1.0,
        color=OTHER.light, label="maximum",
    )  # fmt: skip
    axes.plot(
        threads, [point.mean for point in shown.points], marker="o", markersize=5,
        linestyle="-" if shown.joined else "none", color=SERIES[0].light, label="mean",
        zorder=4,
    )  # fmt: skip
    ends = [min(threads), max(threads)]
    axes.plot(ends, ends, color=MUTED.light, linestyle="--", linewidth=1.0, label="one per thread")
    axes.axhline(
        shown.logical_cpus, color=SERIES[2].light, linestyle="-.", linewidth=1.2,
        label=plural(shown.logical_cpus, "logical CPU"),
    )  # fmt: skip
    highest = max(
        [shown.logical_cpus, *threads, *(p.maximum for p in shown.points if p.maximum > 0)]
    )
    lowest = min([1.0, *(p.mean for p in shown.points if p.mean > 0)])
    threads_axis(axes, "x", threads)
    threads_axis(axes, "y", [2.0**power for power in range(math.ceil(math.log2(highest)) + 1)])
    axes.set_ylim(lowest / 1.2, highest * 1.25)
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel("parallelism")
    legend_above(axes, axes.get_legend_handles_labels()[0], columns=2)


def parallelism_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The parallelism with words; None where there is nothing to show."""
    shown = parallelism(answer)
    if shown is None:
        return None
    means: dict[int, list[float]] = {}
    for point in shown.points:
        means.setdefault(point.threads, []).append(point.mean)
    numbers = ", ".join(
        f"{_range(found)} on {plural(threads, 'thread')}" for threads, found in means.items()
    )
    words = Words(
        name="parallelism",
        title="Parallelism",
        caption=(
            "The calls that all servers together ran at once in the trace of each configuration: "
            "the mean while any ran, and the maximum. On the dashed line each thread of one server "
            "would always run a call. A parallelism above the number of logical CPUs makes calls "
            "faster only where they wait for something else."
        ),
        alt=f"Mean parallelism by {shown.x_label}: {numbers}; "
        f"the machine has {plural(shown.logical_cpus, 'logical CPU')}.",
    )
    return drawn(words, 2.8, lambda figure: draw_parallelism(shown, figure.add_subplot()))


def _range(values: list[float]) -> str:
    low, high = three_digits(min(values)), three_digits(max(values))
    return low if low == high else f"{low} to {high}"
