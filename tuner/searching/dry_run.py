"""What a search would do, from a few worlds of its baseline: nothing is kept."""

import itertools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tuner.decide.gains import LOW_SHARE, UNKNOWN, AnalysedBlocks, BlockGains
from tuner.decide.interim_analysis import SESSION_SHARE
from tuner.decide.ranking import HALVING_SHARE, MOST_RIVALS
from tuner.errors import NothingRanError
from tuner.plan.measuring import WISHED_BLOCKS
from tuner.plan.study_plan import StudyPlan
from tuner.searching.calibrating import KEPT_FOR_TRACES
from tuner.searching.exploring import EXPLORATION_SHARE, FRONT_SHARE, KEPT
from tuner.searching.fitting import fit_of
from tuner.searching.measurer import STEPS_MARGIN
from tuner.searching.runner import Runner, TimedWorld, scratch_folder, steps_in
from tuner.study.log import BASELINE
from tuner.study.records import is_repeated
from tuner.world.launcher import Launcher
from tuner.world.measurement import Failure, Measurement
from tuner.world.postmortem import without_evidence

WORLDS = 4  # worlds beside the one that calibrates: the fewest that show something of their spread
LEAST_SIGMA = 0.01  # so few worlds tell only the order of magnitude of a standard deviation


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """What a budget can be expected to show."""

    configs: int  # the configurations of the grid, the baseline included
    reached: int  # those of them that would be measured, or proposed from
    sampler: str  # `grid`, or who would propose what to measure
    world_s: float  # seconds that a world of the baseline takes
    block_s: float  # seconds that a block of the whole grid would take, if all were like it
    budget_s: float
    sigma: float  # standard deviation of log(objective) between worlds, from `worlds` of them
    worlds: int
    blocks: int  # of the baseline and 8 rivals at most, that there is time for
    least_gain: float  # the smallest fraction that these would distinguish from none; about

    @property
    def has_baseline_twice(self) -> bool:
        """Whether each block would have the baseline twice."""
        return self.blocks >= WISHED_BLOCKS

    def to_json(self) -> dict[str, Any]:
        """The document of `--dry-run --json`."""
        return asdict(self)


def dry_run(plan: StudyPlan, launcher: Launcher, clock: Callable[[], float]) -> DryRun:
    """Run a few worlds of the baseline, and say what the budget would be enough for; the launcher
    is entered already. NothingRanError if the baseline does not run."""
    started_s, measuring = clock(), plan.measuring
    with scratch_folder() as scratch:
        runner = Runner(plan, launcher, scratch)
        first, steps = _measured(runner, plan, 0, None), None
        calibrated_s = clock() - started_s
        if first.median_step_s is not None:
            steps = steps_in(measuring.min_time_s * STEPS_MARGIN, first.median_step_s)
        worlds = [_measured(runner, plan, block, steps) for block in range(1, WORLDS + 1)]
    fit = fit_of(plan, first, calibrated_s, first.world_s)
    sampling = fit.sampling
    costs = [plan.objective.cost(plan.objective.value(world)) for world in worlds]
    sigma = max(LEAST_SIGMA, float(np.std(costs, ddof=1)))
    world_s = float(np.mean([world.world_s for world in worlds]))
    configs = len(plan.candidates())
    reached = 1 + fit.challengers if fit.is_short else configs
    most = KEPT if sampling else reached - 1
    rivals = min(most, MOST_RIVALS)
    first_s = None if sampling else first.world_s * (reached - 1)
    left_s = _left_for_blocks(plan, first_s, calibrated_s, 2 * world_s)

    def blocks_with(baselines: int) -> int:
        per_world = HALVING_SHARE / (most + baselines) + (1 - HALVING_SHARE) / (rivals + baselines)
        return max(0, math.floor(left_s / world_s * per_world))

    blocks = blocks_with(2)
    if blocks < WISHED_BLOCKS:
        blocks = min(WISHED_BLOCKS - 1, blocks_with(1))
    return DryRun(
        configs=configs,
        reached=reached,
        sampler=sampling.sampler if sampling else "grid",
        world_s=world_s,
        block_s=world_s * configs,
        budget_s=measuring.budget_s,
        sigma=sigma,
        worlds=len(worlds),
        blocks=blocks,
        least_gain=_least_gain(sigma, blocks, most, 1 - measuring.confidence),
    )


def _left_for_blocks(
    plan: StudyPlan, first_s: float | None, spent_s: float, traced_s: float
) -> float:
    """Seconds of the budget that first worlds, front and traces leave to blocks; None: it is an
    exploration instead of first worlds."""
    measuring = plan.measuring
    left_s = measuring.budget_s - spent_s
    if first_s is None:
        left_s *= 1 - EXPLORATION_SHARE
    else:
        left_s -= first_s
    if plan.second_objective is not None:
        left_s *= 1 - FRONT_SHARE
    return left_s - traced_s - KEPT_FOR_TRACES * measuring.budget_s


def _measured(runner: Runner, plan: StudyPlan, block: int, steps: int | None) -> Measurement:
    """A world of the baseline; one that fails is run again, as in a search."""
    for attempt in itertools.count():
        outcome = runner.run(TimedWorld(BASELINE, block, plan.baseline, steps, attempt=attempt))
        if not is_repeated(outcome, attempt):
            break
    if isinstance(outcome, Failure):
        # What it left is in no folder that stays.
        why = without_evidence(outcome.message)
        raise NothingRanError(f"the baseline does not run: {outcome.failure}: {why}")
    return outcome


def _least_gain(sigma: float, blocks: int, rivals: int, alpha: float) -> float:
    """The lower reach of the last look's interval, whose differences spread as planted ones do."""
    planted = np.resize([-1.0, 1.0], blocks) * sigma * math.sqrt(1.5)
    low = SESSION_SHARE * alpha * LOW_SHARE / max(1, rivals)
    # All gains spread alike, so every other one, and the noise, shows how much.
    matrix = np.column_stack([planted, *[np.zeros(blocks)] * max(1, rivals)])
    others = AnalysedBlocks(matrix, alpha, planted).spread_of_others(0) if rivals else UNKNOWN
    found = BlockGains.of(matrix, 0, others).interval(1, low, alpha)
    return math.inf if found is None else math.expm1(found.estimate - found.low)
