"""The figure of how many calls the servers served at once, against the threads they had."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from matplotlib.axes import Axes

from tuner.plan.config import Config
from tuner.present.figures.kit.axis import threads_axis
from tuner.present.figures.kit.varying_knobs import threads_dimension
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.legends import legend_above
from tuner.present.figures.kit.theme import MUTED, OTHER, SERIES
from tuner.study.answer import StudyAnswer
from tuner.text import plural, three_digits


class AtOnce(NamedTuple):
    """Calls served at once in the trace of one settings, while any was."""

    threads: int
    mean: float
    most: float
    """NaN where it is not known."""


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """Remote parallelism against the number of worker threads, few threads first."""

    x_label: str
    points: tuple[AtOnce, ...]
    cores: int

    @property
    def joined(self) -> bool:
        """Whether each number of threads is there once, so that a line says something."""
        return len({point.threads for point in self.points}) == len(self.points)


def parallelism(answer: StudyAnswer) -> Parallelism | None:
    """What the traces tell; None where threads do not vary over the settings that were traced."""
    workload = answer.plan.workload
    dimension = threads_dimension(answer)
    if dimension is None:
        return None
    points = [
        AtOnce(
            int(str(Config.from_json(row.config).value_of(dimension, workload))),
            row.parallelism_mean,
            row.parallelism_max,
        )
        for row in answer.rows
        if row.counts and not math.isnan(row.parallelism_mean)
    ]
    if len({point.threads for point in points}) < 2:
        return None
    return Parallelism(
        x_label=str(dimension), points=tuple(sorted(points)), cores=answer.environment.cpu_count
    )


def draw_parallelism(shown: Parallelism, axes: Axes) -> None:
    """Mean and most calls at once, below the line of as many calls as threads."""
    threads = [point.threads for point in shown.points]
    axes.plot(
        threads, [point.most for point in shown.points], marker="^", markersize=6,
        markerfacecolor="none", linestyle=":" if shown.joined else "none", linewidth=1.0,
        color=OTHER.light, label="most at once",
    )  # fmt: skip
    axes.plot(
        threads, [point.mean for point in shown.points], marker="o", markersize=5,
        linestyle="-" if shown.joined else "none", color=SERIES[0].light, label="mean, while any",
        zorder=4,
    )  # fmt: skip
    ends = [min(threads), max(threads)]
    axes.plot(ends, ends, color=MUTED.light, linestyle="--", linewidth=1.0, label="one per thread")
    cores = plural(shown.cores, "CPU core")
    axes.axhline(shown.cores, color=SERIES[2].light, linestyle="-.", linewidth=1.2, label=cores)
    highest = max([shown.cores, *threads, *(p.most for p in shown.points if p.most > 0)])
    lowest = min([1.0, *(p.mean for p in shown.points if p.mean > 0)])
    threads_axis(axes, "x", threads)
    threads_axis(axes, "y", [2.0**power for power in range(math.ceil(math.log2(highest)) + 1)])
    axes.set_ylim(lowest / 1.2, highest * 1.25)
    axes.set_xlabel(shown.x_label)
    axes.set_ylabel("calls served at once")
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
        title="Calls served at once",
        caption=(
            "How many calls all servers together served at once in the trace of each settings, on "
            "average while any was served, and at most. On the dashed line each thread of one "
            "server would serve a call all the time; above the CPU cores more calls at once are "
            "faster only where they wait."
        ),
        alt=f"Calls served at once on average, by {shown.x_label}: {numbers}; "
        f"the machine has {plural(shown.cores, 'CPU core')}.",
    )
    return drawn(words, 2.8, lambda figure: draw_parallelism(shown, figure.add_subplot()))


def _range(values: list[float]) -> str:
    low, high = three_digits(min(values)), three_digits(max(values))
    return low if low == high else f"{low} to {high}"
