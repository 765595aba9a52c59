"""What runs show in which values of the switch interval took turns: an order, and no verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.decide.live_comparison import live_gain
from tuner.decide.statistics import Interval
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import SWITCH_INTERVAL, Value
from tuner.plan.study_plan import StudyPlan
from tuner.study.log import BASELINE, StudyLog
from tuner.study.records import Live
from tuner.study.rows import Paired, PairedTrials, ratio_json
from tuner.text import ratio_text

FAR = 1.5  # so many times behind the best value, no configuration with a value is measured


@dataclass(frozen=True, kw_only=True)
class LiveGain:
    """What a value gains over the baseline's, beside its other knobs."""

    config: Config  # its intervals alone
    over: Config
    ratio: Interval  # how many times as fast
    fresh: Paired | None  # the same in fresh worlds; None where none compares them

    @property
    def is_contradicted(self) -> bool:
        """Whether fresh worlds show another gain; few of them have a direction alone."""
        if self.fresh is None:
            return False
        found, ratio = self.fresh.ratio, self.ratio
        if math.isfinite(found.high):
            return found.high < ratio.low or found.low > ratio.high
        return found.estimate < 1 < ratio.low or ratio.high < 1 < found.estimate


@dataclass(frozen=True, kw_only=True)
class LiveAnswer:
    """What the answer says of it."""

    runs: int
    remembers: bool  # slices depend on the value before theirs, so it is not believed
    why_not: str  # why it was not compared, as a clause; empty if it was
    gains: tuple[LiveGain, ...]

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {
            "runs": self.runs,
            "remembers": self.remembers,
            "why_not": self.why_not or None,
            "gains": [
                {
                    "config": each.config.to_json(),
                    "over": each.over.to_json(),
                    "speedup": ratio_json(each.ratio),
                    "fresh": each.fresh and ratio_json(each.fresh.ratio),
                    "contradicted": each.is_contradicted,
                }
                for each in self.gains
            ],
        }


def intervals_in(config: Config, plan: StudyPlan) -> tuple[Value, ...]:
    """The switch interval of each role."""
    dimensions = [Dimension(role, SWITCH_INTERVAL.name) for role in plan.subject.roles]
    return tuple(config.value_of(each, plan.subject) for each in dimensions)


def live_answer_of(log: StudyLog, paired: PairedTrials) -> LiveAnswer | None:
    """What was compared live, beside what fresh worlds say; None where that was no question."""
    live = log.live
    if live is None:
        return None
    configs, subject = live.read_configs(), log.plan.subject
    trials = {config.resolved(subject): trial for trial, config in enumerate(log.configs)}
    gains = []
    for place, config in enumerate(configs[1:] if live.gains else [], start=1):
        ratio = _gain(log, live, place)
        trial = trials.get(config.resolved(subject))
        fresh = None if trial is None else paired.compare(trial, BASELINE)
        if ratio is not None:
            both = (_intervals_of(each) for each in (config, configs[0]))
            gains.append(LiveGain(**dict(zip(("config", "over"), both, strict=True)),
                                  ratio=ratio.exp(), fresh=fresh))  # fmt: skip
    return LiveAnswer(
        runs=len(live.gains), remembers=live.remembers, why_not=live.why_not, gains=tuple(gains)
    )


def in_live_order(log: StudyLog, trials: Sequence[int]) -> list[int]:
    """These trials, those first whose switch interval runs have shown to be better."""
    means = _believed(log)
    if means is None:
        return [*trials]
    configs, plan = log.configs, log.plan
    return sorted(trials, key=lambda trial: -means.get(intervals_in(configs[trial], plan), 0.0))


def best_live(log: StudyLog) -> Config | None:
    """The best intervals, where they are shown to be better than the baseline's."""
    means, live = _believed(log), log.live
    if means is None or live is None:
        return None
    levels = [*means.values()]
    place = levels.index(max(levels))
    found = _gain(log, live, place)
    is_shown = place > 0 and found is not None and found.low > 0
    return _intervals_of(live.read_configs()[place]) if is_shown else None


def slower_live(log: StudyLog, trial: int) -> str:
    """That runs show the switch interval of a trial to be slower, as a clause; empty if not."""
    means, live = _believed(log), log.live
    if means is None or live is None:
        return ""
    own, places, levels = intervals_in(log.configs[trial], log.plan), [*means], [*means.values()]
    if own not in means:
        return ""
    place, best = places.index(own), levels.index(max(levels))
    for other, most in ((0, 1.0), (best, 1 / FAR)):
        found = _gain(log, live, place, over=other)
        if place != other and found is not None and math.exp(found.high) < most:
            slower, faster = (_intervals_of(live.read_configs()[each]) for each in (place, other))
            times = ratio_text(math.exp(found.estimate))
            return f"{slower} is {times} times as fast as {faster} in runs where they took turns"
    return ""


def _believed(log: StudyLog) -> dict[tuple[Value, ...], float] | None:
    """The mean log gain of each value, by what the roles have; None where nothing is believed."""
    live = log.live
    if live is None or live.remembers or not live.gains:
        return None
    means = np.array(live.gains).mean(axis=0).tolist()
    return {
        intervals_in(config, log.plan): mean
        for config, mean in zip(live.read_configs(), means, strict=True)
    }


def _gain(log: StudyLog, live: Live, place: int, over: int = 0) -> Interval | None:
    return live_gain(np.array(live.gains), place, log.rules.confidence, over)


def _intervals_of(config: Config) -> Config:
    return Config.of({d: value for d, value in config.items if d.knob == SWITCH_INTERVAL.name})
