"""What runs show in which values of the switch interval took turns: an order, and no verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.decide.gains import Gains
from tuner.decide.live_comparison import live_gain
from tuner.decide.statistics import Interval
from tuner.plan.config import Config, Dimension
from tuner.plan.knobs import SWITCH_INTERVAL, Value
from tuner.plan.study_plan import StudyPlan
from tuner.study.log import BASELINE, StudyLog
from tuner.study.rows import ratio_json
from tuner.text import ratio_text

FAR = 1.5  # so many times behind the best value, no configuration with a value is measured


@dataclass(frozen=True, kw_only=True)
class LiveGain:
    """What a value gains over the baseline's, beside its other knobs."""

    config: Config  # its intervals alone
    over: Config
    ratio: Interval  # how many times as fast
    fresh: Interval | None  # the same in fresh worlds; None where none compares them

    @property
    def is_contradicted(self) -> bool:
        """Whether fresh worlds show another gain; few of them have a direction alone."""
        if (fresh := self.fresh) is None:
            return False
        if math.isfinite(fresh.high):
            return fresh.high < self.ratio.low or fresh.low > self.ratio.high
        return fresh.estimate < 1 < self.ratio.low or self.ratio.high < 1 < fresh.estimate

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {
            "config": self.config.to_json(),
            "over": self.over.to_json(),
            "speedup": ratio_json(self.ratio),
            "fresh": ratio_json(self.fresh),
            "contradicted": self.is_contradicted,
        }


def intervals_in(config: Config, plan: StudyPlan) -> tuple[Value, ...]:
    """The switch interval of each role."""
    dimensions = [Dimension(role, SWITCH_INTERVAL.name) for role in plan.subject.roles]
    return tuple(config.value_of(each, plan.subject) for each in dimensions)


def live_gains_of(log: StudyLog, paired: Gains) -> tuple[LiveGain, ...]:
    """What was compared live, beside what fresh worlds say; empty where nothing was."""
    configs, subject = [] if log.live is None else log.live.read_configs(), log.plan.subject
    trials = {config.resolved(subject): trial for trial, config in enumerate(log.configs)}
    gains = []
    for place, config in enumerate(configs[1:], start=1):
        trial = trials.get(config.resolved(subject))
        fresh = None if trial is None else paired.compare(trial, BASELINE)
        if (ratio := _gain(log, place)) is not None:
            gain = LiveGain(
                config=_intervals_of(config), over=_intervals_of(configs[0]), ratio=ratio.exp(),
                fresh=fresh and fresh.ratio,
            )  # fmt: skip
            gains.append(gain)
    return tuple(gains)


def in_live_order(log: StudyLog, trials: Sequence[int]) -> list[int]:
    """These trials, those first whose switch interval runs have shown to be better."""
    means, plan = _believed(log), log.plan
    return sorted(trials, key=lambda trial: -means.get(intervals_in(log.configs[trial], plan), 0.0))


def slower_live(log: StudyLog, trial: int) -> str:
    """That runs show the switch interval of a trial to be slower, as a clause; empty if not."""
    means, own = _believed(log), intervals_in(log.configs[trial], log.plan)
    if log.live is None or own not in means:
        return ""
    places, configs = [*means], log.live.read_configs()
    place, best = places.index(own), places.index(max(means, key=means.__getitem__))
    for other, most in ((0, 1.0), (best, 1 / FAR)):
        found = _gain(log, place, over=other)
        if place != other and found is not None and math.exp(found.high) < most:
            slower, faster = _intervals_of(configs[place]), _intervals_of(configs[other])
            times = ratio_text(math.exp(found.estimate))
            return f"{slower} is {times} times as fast as {faster} in runs where they took turns"
    return ""


def _believed(log: StudyLog) -> dict[tuple[Value, ...], float]:
    """The mean log gain of each value, by what the roles have; empty where none is believed."""
    live = log.live
    if live is None or live.remembers or not live.gains:
        return {}
    names = (intervals_in(config, log.plan) for config in live.read_configs())
    return dict(zip(names, np.array(live.gains).mean(axis=0).tolist(), strict=True))


def _gain(log: StudyLog, place: int, over: int = 0) -> Interval | None:
    if log.live is None or not log.live.gains:
        return None
    return live_gain(np.array(log.live.gains), place, log.rules.confidence, over)


def _intervals_of(config: Config) -> Config:
    return Config.of({d: value for d, value in config.items if d.knob == SWITCH_INTERVAL.name})
