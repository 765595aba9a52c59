"""Excluding the other rivals: "keep" and "tie" need evidence about every one of them."""

from tuner.decide.exclusion import ExclusionLook, due_alpha
from tuner.searching.measurer import Measurer
from tuner.study.conclusion import comparison_of
from tuner.study.evidence import exclusion_alpha, not_excluded
from tuner.study.log import BASELINE

# A look for every so many times as many blocks.
LOOK_GROWTH = 1.3


class Exclusion:
    """The rivals that may still be more than epsilon better than the baseline."""

    def __init__(self, measurer: Measurer) -> None:
        self._measurer = measurer
        self._open: list[int] | None = None

    @property
    def open(self) -> list[int]:
        """The rivals that are not excluded and can be measured; looks again when that is due."""
        log = self._measurer.log
        rows, looks = len(log.matrix("race", "confirmation")), log.exclusion_looks
        if not looks or rows >= LOOK_GROWTH * looks[-1].rows:
            self._look(over=False)
        if self._open is None:
            self._open = not_excluded(log, BASELINE)
        return [trial for trial in self._open if trial in log.runnable]

    def finish(self) -> None:
        """Measure the rivals that are left with the baseline until none is, or all is spent.

        Where the challenger is better, or may be, the verdict does not depend on them.
        """
        measurer = self._measurer
        log = measurer.log
        while comparison_of(log).kind in ("keep-baseline", "tie") and self.open:
            if measurer.blocks_left([BASELINE, *self.open]) < 1 or BASELINE in log.failures:
                break
            measurer.measure_block([BASELINE, *self.open])
        self._look(over=True)

    def _look(self, *, over: bool) -> None:
        measurer, log = self._measurer, self._measurer.log
        spent_s, total_s = measurer.budget.spent_s, measurer.budget.total_s
        rows = len(log.matrix("race", "confirmation"))
        alpha = due_alpha(exclusion_alpha(log), log.exclusion_looks, spent_s, total_s, over=over)
        if rows and alpha:
            measurer.keep_exclusion(ExclusionLook(rows, alpha, spent_s, total_s))
            self._open = None
