"""Blocks for a second objective: a race by the first one drops what may be best in the other."""

from tuner.decide.pareto import LEAST_BLOCKS
from tuner.searching.measurer import Measurer
from tuner.study.front import front_of
from tuner.study.log import BASELINE

# The front gets this share of the budget; the rest decides by the first objective.
FRONT_SHARE = 0.4


def measure_both_goals(measurer: Measurer) -> None:
    """Measure every configuration that may be on the front, until its share of the budget is spent.

    What is shown to be beaten in both is measured no longer for this, and stays in the race. It
    does nothing in a study with one objective.
    """
    log = measurer.log
    if measurer.plan.second_objective is None:
        return
    measurer.begin("exploration")
    end_s, most_blocks = measurer.share_ends("front_started_s", FRONT_SHARE)
    while log.blocks("exploration") < most_blocks:
        front = front_of(log)
        beaten = set() if front is None else {p.trial for p in front.points if not p.in_front}
        # Who was dropped for being slow may be the cheapest.
        compared = [trial for trial in log.runnable if trial in log.compared]
        trials = [trial for trial in compared if trial == BASELINE or trial not in beaten]
        few = log.blocks("exploration") >= LEAST_BLOCKS and len(trials) < 2
        if few or measurer.budget.spent_s + log.block_s(trials) > end_s:
            break
        measurer.measure_blocks(trials)
    measurer.finish_blocks()
