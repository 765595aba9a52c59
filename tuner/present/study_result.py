"""The answer of a study for Python and for notebooks: its numbers, drawn and shown."""

from dataclasses import fields
from typing import TYPE_CHECKING

from tuner.study.answer import StudyAnswer

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class StudyResult(StudyAnswer):
    """What `tune` and `load_study` return.

    `verdict` is `better`, `tie`, `keep-baseline` or `undecided`; `best` the settings to use,
    `speedup` how much faster they are than the baseline; `trials` is a frame with a row per
    settings. A notebook shows the verdict, the table and the lines to paste.
    """

    @classmethod
    def of(cls, answer: StudyAnswer) -> "StudyResult":
        """The same answer, to be looked at."""
        return cls(**{field.name: getattr(answer, field.name) for field in fields(answer)})

    def __repr__(self) -> str:
        best = None if self.best is None else str(self.best)
        return f"StudyResult(study={self.study!r}, verdict={self.verdict!r}, best={best!r})"

    def __str__(self) -> str:
        from tuner.present.wording import verdict_sentence

        return verdict_sentence(self)

    def plot_scaling(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the objective by settings with its intervals, on new axes if none are given."""
        # Late: whoever only asks for the verdict need not wait for matplotlib.
        from tuner.present.figures import plot_scaling

        return plot_scaling(self, axes)

    def plot_parallelism(self, axes: "Axes | None" = None) -> "Axes":
        """Draw how many calls the servers ran at once, by worker threads, beside the ideal."""
        from tuner.present.figures import plot_parallelism

        return plot_parallelism(self, axes)

    def _repr_html_(self) -> str:
        from tuner.present.report.study_report import notebook_html

        return notebook_html(self)
