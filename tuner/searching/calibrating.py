"""The first world of each configuration, and its trace: before anything is compared."""

from tuner.searching.measurer import Measurer
from tuner.searching.runner import LEAST_PAIRS
from tuner.study.log import BASELINE


def calibrate(measurer: Measurer) -> None:
    """Run each configuration once, the baseline first, as far as the budget goes.

    What fails is out. What there is no time for is eliminated: one block and two pairs of those
    that ran before must remain possible.
    """
    log = measurer.log
    measurer.begin("calibration")
    for trial in log.candidates:
        if log.calibration(trial) is not None:
            continue
        # Only what runs: what failed or hung must not use up the time that the others need.
        runnable = log.runnable
        least_s = measurer.block_s(runnable) + LEAST_PAIRS * measurer.block_s(runnable[:2])
        if runnable and measurer.budget.remaining_s < least_s:
            measurer.eliminate(trial, "not measured: the budget was spent before its turn")
        else:
            measurer.calibrate(trial)


def trace(measurer: Measurer) -> None:
    """Trace each configuration that runs once, while there is time to decide as well."""
    log = measurer.log
    measurer.begin("trace")
    for trial in log.racing:
        if log.traced(trial) is not None:
            continue
        pair_s = measurer.block_s([BASELINE, trial])
        if measurer.budget.remaining_s < measurer.block_s(log.racing) + LEAST_PAIRS * pair_s:
            measurer.observer.on_event(
                f"{log.configs[trial]}: not traced: the budget leaves no time for it"
            )
        else:
            measurer.trace(trial)
