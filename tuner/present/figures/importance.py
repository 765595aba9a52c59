"""The figure of how much each knob matters: the share of the variance that it explains."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from tuner.decide.additive import variance_shares
from tuner.plan.config import Config, varying
from tuner.plan.program_spec import Subject
from tuner.present.figures.kit.canvas import SMALL
from tuner.present.figures.kit.config_names import varying_dimensions
from tuner.present.figures.kit.drawn_figure import DrawnFigure, Words, drawn
from tuner.present.figures.kit.row_names import Rows
from tuner.present.figures.kit.theme import INK, OFF_CPU, SERIES
from tuner.study.answer import StudyAnswer
from tuner.text import whole_percent

REST = "interactions and noise"


@dataclass(frozen=True, kw_only=True)
class Importance:
    """The share of the variance that each knob explains, the largest first."""

    shares: dict[str, float]
    configs: int
    """How many were measured."""

    @property
    def rest(self) -> float:
        """The share that no knob explains alone."""
        return max(0.0, 1.0 - sum(self.shares.values()))


def importance(answer: StudyAnswer) -> Importance | None:
    """The shares; None unless two knobs vary, and the times differ."""
    if len(varying_dimensions(answer)) < 2:
        return None
    levels = answer.levels
    measured = [
        (row.config, math.exp(levels[row.trial])) for row in answer.rows if row.trial in levels
    ]
    shares = main_effects(measured, answer.plan.subject)
    return Importance(shares=shares, configs=len(measured)) if any(shares.values()) else None


def main_effects(measured: Sequence[tuple[Config, float]], workload: Subject) -> dict[str, float]:
    """The share of the variance of log(value) that each dimension explains alone, largest first.

    Args:
        measured: Configurations with their values; those with NaN are left out. A configuration
            that failed after it was measured has a value too: the caller leaves it out.
        workload: What the configurations are for.
    """
    known = [(config, math.log(value)) for config, value in measured if value > 0]
    configs = [config for config, _ in known]
    levels = {
        str(dimension): [config.value_of(dimension, workload) for config in configs]
        for dimension in varying(configs, workload)
    }
    return variance_shares(levels, [value for _, value in known])


def draw_importance(shown: Importance, axes: Axes) -> None:
    """A bar per knob, and one for the rest."""
    bars = {**shown.shares, REST: shown.rest}
    rows = Rows(tuple(bars))
    for at, (name, share) in zip(rows.at, bars.items(), strict=True):
        rest = name == REST
        axes.barh(
            at, 100 * share, rows.bar_in, edgecolor=INK.light, linewidth=0.6,
            facecolor=(OFF_CPU if rest else SERIES[0]).light, hatch="////" if rest else None,
        )  # fmt: skip
        axes.annotate(
            whole_percent(share), (100 * share, at), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=SMALL,
        )  # fmt: skip
    rows.draw(axes, None)
    axes.set_xlim(0, 112)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_xlabel("share of the differences explained (%)")


def importance_figure(answer: StudyAnswer) -> DrawnFigure | None:
    """The shares with words; None where there is nothing to show."""
    shown = importance(answer)
    if shown is None:
        return None
    texts = [f"{name} {whole_percent(share)}" for name, share in shown.shares.items()]
    words = Words(
        name="importance",
        title="Which knobs matter",
        caption=(
            f"The share of the variance of log({answer.objective.label}) between the "
            f"{shown.configs} measured configurations that each knob explains alone, as compared "
            "with the baseline within blocks; the rest is how knobs act together, and noise."
        ),
        alt=f"{', '.join(texts)}, {REST} {whole_percent(shown.rest)}",
    )
    height = 0.65 + Rows((*shown.shares, REST)).height_in
    return drawn(words, height, lambda figure: draw_importance(shown, figure.add_subplot()))
