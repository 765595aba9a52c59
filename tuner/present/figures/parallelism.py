"""The figure of the servers' parallelism against their worker threads."""

import math
from typing import NamedTuple

from matplotlib.axes import Axes

from tuner.present.configurations import threads_dimension
from tuner.present.figures.kit.axis import threads_axis
from tuner.present.figures.kit.canvas import DrawnFigure, drawn
from tuner.present.figures.kit.named_rows import legend_above
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


class Parallelism(NamedTuple):
    """The parallelism by number of worker threads, few threads first."""

    x_label: str
    points: list[ParallelismPoint]
    logical_cpus: int


def parallelism(answer: StudyAnswer) -> Parallelism | None:
    """What the traces tell; None where all traced configurations have as many threads."""
    dimension = threads_dimension(answer)
    if dimension is None:
        return None
    points = []
    for row in answer.rows:
        if row.is_measured and PARALLELISM_MEAN.name in row.metrics:
            threads = int(str(row.config.value_of(dimension, answer.plan.subject)))
            numbers = row.metric(PARALLELISM_MEAN), row.metric(PARALLELISM_MAX)
            points.append(ParallelismPoint(threads, *numbers))
    if len({point.threads for point in points}) < 2:
        return None
    return Parallelism(str(dimension), sorted(points), answer.environment.cpu_count)


def draw_parallelism(shown: Parallelism, axes: Axes) -> None:
    """Mean and maximum, beside the line of one call per thread and that of the logical CPUs."""
    threads, means, maxima = zip(*shown.points, strict=True)
    # A line can join them where each number of threads occurs once.
    dotted, solid = (":", "-") if len(set(threads)) == len(threads) else ("none", "none")
    axes.plot(
        threads, maxima, marker="^", markersize=6, markerfacecolor="none", linestyle=dotted,
        linewidth=1.0, color=OTHER.light, label="maximum",
    )  # fmt: skip
    axes.plot(
        threads, means, marker="o", markersize=5, linestyle=solid, color=SERIES[0].light,
        label="mean", zorder=4,
    )  # fmt: skip
    ends = [min(threads), max(threads)]
    axes.plot(ends, ends, color=MUTED.light, linestyle="--", linewidth=1.0, label="one per thread")
    axes.axhline(
        shown.logical_cpus, color=SERIES[2].light, linestyle="-.", linewidth=1.2,
        label=plural(shown.logical_cpus, "logical CPU"),
    )  # fmt: skip
    highest = max([shown.logical_cpus, *threads, *(each for each in maxima if each > 0)])
    lowest = min([1.0, *(mean for mean in means if mean > 0)])
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
        f"{' to '.join(dict.fromkeys(map(three_digits, (min(found), max(found)))))} on "
        f"{plural(threads, 'thread')}"
        for threads, found in means.items()
    )
    return drawn(
        lambda figure: draw_parallelism(shown, figure.add_subplot()),
        2.8,
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
