"""The answer of a study for Python and for notebooks: its numbers, drawn and shown."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.study.answer import StudyAnswer

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True, repr=False)
class StudyResult(StudyAnswer):
    """What `tune` and `load_study` return: the answer of a study, which can be drawn.

    `str(result)` is the verdict in words; a notebook shows the verdict, the table of all trials and
    the lines to paste.
    """

    @classmethod
    def of(cls, answer: StudyAnswer) -> "StudyResult":
        """The answer, with what draws and shows it."""
        return cls(**{field.name: getattr(answer, field.name) for field in fields(answer)})

    @property
    def folder(self) -> Path:
        """The folder of its files: the report, the traces, `recommended.json`."""
        return self.files.root

    def plot_scaling(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the objective of every configuration, with its interval.

        Args:
            axes: Where to draw; new axes of pyplot if None.

        Returns:
            The axes.

        Raises:
            UsageError: Nothing was measured.
        """
        # Late: a program that only asks for the verdict need not wait for matplotlib.
        from tuner.present.figures import plot_scaling

        return plot_scaling(self, axes)

    def plot_parallelism(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the parallelism of the servers against their worker threads.

        Args:
            axes: Where to draw; new axes of pyplot if None.

        Returns:
            The axes.

        Raises:
            UsageError: There are no traces of several numbers of threads.
        """
        from tuner.present.figures import plot_parallelism

        return plot_parallelism(self, axes)

    def __repr__(self) -> str:
        best = None if self.best is None else str(self.best)
        return f"StudyResult(study={self.study!r}, verdict={self.verdict!r}, best={best!r})"

    def __str__(self) -> str:
        from tuner.present.wording import verdict_sentence

        return verdict_sentence(self)

    def _repr_html_(self) -> str:
        from tuner.present.pages import notebook_html

        return notebook_html(self)
