"""The picture that explains the whole: a program, its worlds in random blocks, the verdict."""

import random
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from testing.readme import Ratio
from tuner.present.figures.kit.canvas import canvas
from tuner.present.figures.kit.theme import INK, MUTED, SERIES

SIZE = (12.0, 3.0)
_COLOURS = [colour.light for colour in SERIES]


def write_overview(ratios: Sequence[Ratio], path: Path) -> None:
    """Draw what the README's search of a program says: four panels from left to right, with an
    arrow from each to the next."""
    with canvas(SIZE, path) as figure:
        figure.set_layout_engine("none")
        panels = [
            figure.add_axes((left, 0.22, width, 0.56))
            for left, width in ((0.015, 0.165), (0.275, 0.23), (0.585, 0.165), (0.805, 0.185))
        ]
        titles = (
            "1. Your program, unedited",
            "2. Fresh worlds, random blocks",
            "3. How much faster",
            "4. Under the program again",
        )
        for axes, title in zip(panels, titles, strict=True):
            figure.text(axes.get_position().x0, 0.89, title, weight="bold", fontsize=10)
        _program(panels[0])
        _blocks([ratio[0] for ratio in ratios], panels[1])
        _verdict(ratios, panels[2])
        _use(ratios[0], panels[3])
        for left, right in ((0.187, 0.215), (0.518, 0.546), (0.765, 0.793)):
            figure.add_artist(
                FancyArrowPatch(
                    (left, 0.5), (right, 0.5), transform=figure.transFigure, arrowstyle="-|>",
                    mutation_scale=16, color=MUTED.light,
                )
            )  # fmt: skip


def _empty(axes: Axes) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


def _box(axes: Axes, low: float, high: float, lines: Sequence[str], colour: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (0.03, low + 0.03), 0.94, high - low - 0.06, boxstyle="round,pad=0.02",
            facecolor="none", edgecolor=colour, linewidth=1.4,
        )
    )  # fmt: skip
    for number, line in enumerate(lines):
        at = high - (high - low) * (number + 0.5) / len(lines)
        axes.text(0.5, at, line, ha="center", va="center", fontsize=9)


def _program(axes: Axes) -> None:
    _empty(axes)
    _box(axes, 0.62, 1.0, ["python main.py"], INK.light)
    _box(axes, 0.0, 0.42, ["init_rpc(..., options)", "rpc_async, remote, ..."], MUTED.light)


def _blocks(threads: Sequence[int], axes: Axes) -> None:
    """Every configuration once in each block, in a new order each time."""
    order, shuffled = list(threads), random.Random(4)
    for block in range(3):
        shuffled.shuffle(order)
        for place, number in enumerate(order):
            colour = _COLOURS[threads.index(number) % len(_COLOURS)]
            axes.barh(-block, 0.86, left=place, height=0.7, color=colour, alpha=0.25)
            axes.text(place + 0.43, -block, str(number), ha="center", va="center", fontsize=9)
    axes.set_yticks([0, -1, -2], ["block 1", "block 2", "block 3"])
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.set_xlabel("num_worker_threads of each world", fontsize=9)
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)


def _verdict(ratios: Sequence[Ratio], axes: Axes) -> None:
    for place, (number, estimate, low, high) in enumerate(ratios):
        axes.errorbar(
            estimate, -place, xerr=[[estimate - low], [high - estimate]], marker="o", capsize=3,
            color=_COLOURS[[ratio[0] for ratio in ratios].index(number) % len(_COLOURS)],
        )  # fmt: skip
    axes.axvline(1.0, color=MUTED.light, linewidth=1.0, zorder=1)
    axes.set_yticks([-place for place in range(len(ratios))], [str(ratio[0]) for ratio in ratios])
    axes.set_xlim(0, 1.15 * max(ratio[3] for ratio in ratios))
    axes.set_ylim(-len(ratios) + 0.4, 0.6)
    axes.set_xlabel("times as fast as the baseline", fontsize=9)


def _use(best: Ratio, axes: Axes) -> None:
    _empty(axes)
    _box(axes, 0.62, 1.0, [f"num_worker_threads={best[0]}", f"{best[1]} times as fast"], INK.light)
    _box(axes, 0.0, 0.42, ["tuner.run recommended.json", "-- python main.py"], MUTED.light)
