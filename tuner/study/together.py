"""What each knob gave, and which number of threads is best: from a fit of all knobs together."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tuner.decide.statistics import FloatArray, Interval
from tuner.plan.config import Config, Dimension, varying
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS, Value
from tuner.study.evidence import gains_of, levels_of, points_of
from tuner.study.log import BASELINE, StudyLog

_Point = tuple[int, ...]


class KnobGain(NamedTuple):
    """What one knob gave: its value against the baseline's, the other knobs as recommended."""

    dimension: Dimension
    value: Value
    gain: float  # how many times as good, by the fit of all knobs together
    interval: Interval | None  # by the blocks that measured both; None where these are too few

    def to_json(self) -> dict[str, Any]:
        """The entry in `--json`."""
        return {
            "knob": self.dimension.knob,
            "role": self.dimension.role,
            "value": KNOBS[self.dimension.knob].to_json(self.value),
            "gain": self.gain,
            "gain_low": self.interval and self.interval.low,
            "gain_high": self.interval and self.interval.high,
        }


class BestThreads(NamedTuple):
    """Which number of threads is best beside given values of the other knobs."""

    dimension: Dimension
    beside: Config
    best: Value
    near: tuple[Value, ...]  # within epsilon of the best, which is among them, as far as measured
    tried: tuple[Value, ...]
    is_shown: bool  # whether the best is shown to be better than every value that is not near it

    def to_json(self) -> dict[str, Any]:
        """The entry in `--json`."""
        return {
            "role": self.dimension.role,
            "beside": self.beside.to_json(),
            "value": self.best,
            "is_shown": self.is_shown,
            "within_epsilon": [*self.near],
            "tried": [*self.tried],
        }


class Interaction(NamedTuple):
    """Two numbers of threads that compare differently beside other values of the other knobs."""

    dimension: Dimension
    value: Value
    other: Value
    gains: tuple[tuple[Config, float], ...]  # how many times as good the value is, beside what

    def to_json(self) -> dict[str, Any]:
        """The entry in `--json`."""
        gains = [{"beside": beside.to_json(), "gain": gain} for beside, gain in self.gains]
        known = {"value": self.value, "other": self.other, "gains": gains}
        return {"role": self.dimension.role, **known}


class Together(NamedTuple):
    """What the knobs do, each and together, as far as measured."""

    gains: tuple[KnobGain, ...] = ()
    best_threads: tuple[BestThreads, ...] = ()
    interactions: tuple[Interaction, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The entries in `--json`."""
        return {
            "knob_gains": [gain.to_json() for gain in self.gains],
            "best_threads": [thread.to_json() for thread in self.best_threads],
            "interactions": [interaction.to_json() for interaction in self.interactions],
        }


def together_of(log: StudyLog, chosen: int | None) -> Together | None:
    """What each knob gave, by a fit of all knobs, and which number of threads is best; None where
    the configurations do not differ in two knobs."""
    values = varying(log.configs, log.plan.subject)
    if len(values) < 2:
        return None
    levels = levels_of(log).best
    if chosen is None or np.isnan(levels[[BASELINE, chosen]]).any():
        return Together()
    fitted = _Fitted(log, levels, points_of(log), values, chosen)
    best = [fitted.best_threads(thread, at) for thread in fitted.threads for at in fitted.places]
    both = map(fitted.interaction, fitted.threads)
    return Together(tuple(fitted.gains()), tuple(filter(None, best)), tuple(filter(None, both)))


@dataclass(frozen=True)
class _Fitted:
    """What was measured, and the level of each trial by a fit of all knobs."""

    log: StudyLog
    levels: FloatArray
    points: Sequence[_Point]
    values: Mapping[Dimension, Sequence[Value]]
    chosen: int

    @property
    def threads(self) -> list[Dimension]:
        """The numbers of threads, where another knob is tuned too."""
        found = [value for value in self.values if value.knob == NUM_WORKER_THREADS.name]
        return found if len(found) < len(self.values) else []

    @property
    def places(self) -> list[_Point]:
        """The chosen point, and the same with what the baseline has of all but threads."""
        best, base = self.points[self.chosen], self.points[BASELINE]
        plain = tuple(
            mine if value in self.threads else its
            for value, mine, its in zip(self.values, best, base, strict=True)
        )
        return [*dict.fromkeys((best, plain))]

    def _combinations(self, dimension: Dimension) -> int:
        """Beside how many values of the other knobs, and of which role, something may be said."""
        beside = math.prod(len(found) for each, found in self.values.items() if each != dimension)
        return beside * len(self.threads)

    def gains(self) -> list[KnobGain]:
        """What each knob gave in which the chosen one and the baseline differ."""
        best, base = self.points[self.chosen], self.points[BASELINE]
        found = []
        for axis, (dimension, values) in enumerate(self.values.items()):
            without = self._trials(dimension, best).get(base[axis], self.chosen)
            if without == self.chosen:
                continue
            gain, interval = float(self.levels[without] - self.levels[self.chosen]), None
            if (tested := gains_of(self.log).gain(self.chosen, without)) is not None:
                # The verdict's own number where it is the only knob.
                own = tested.estimate if without == BASELINE else gain
                gain = min(max(own, tested.low), tested.high)
                interval = tested.exp() if tested.exp().is_told else None
            found.append(KnobGain(dimension, values[best[axis]], math.exp(gain), interval))
        return found

    def best_threads(self, dimension: Dimension, place: _Point) -> BestThreads | None:
        """The best number of threads there; None where fewer than two were measured."""
        trials, values = self._trials(dimension, place), self.values[dimension]
        if len(trials) < 2:
            return None
        levels = {number: self.levels[trials[number]] for number in sorted(trials)}
        best = min(levels, key=levels.__getitem__)
        most = levels[best] + self.log.rules.log_epsilon
        near = [number for number, level in levels.items() if level <= most]
        own = place[[*self.values].index(dimension)]
        if own in near and place == self.points[self.chosen]:
            best = own
        # Every pair of them, beside whatever is chosen, could have been the one that is shown.
        shared = len(trials) * (len(trials) - 1) * self._combinations(dimension)
        worse = [trials[number] for number in trials if number not in near]
        behind = [gains_of(self.log).gain(trial, trials[best], shared) for trial in worse]
        return BestThreads(
            dimension,
            self._beside(place, dimension),
            values[best],
            tuple(values[number] for number in near),
            tuple(values[number] for number in levels),
            bool(worse) and all(gain is not None and gain.high < 0 for gain in behind),
        )

    def interaction(self, dimension: Dimension) -> Interaction | None:
        """Which two numbers of threads compare differently at the places; None if none is shown."""
        if len(self.places) < 2:
            return None
        here, there = (self._trials(dimension, place) for place in self.places)
        pairs = [*itertools.permutations(sorted(here.keys() & there.keys()), 2)]
        shared = len(pairs) * self._combinations(dimension)
        shown = []
        for one, other in pairs:
            trials = (here[one], here[other]), (there[one], there[other])
            apart = gains_of(self.log).difference(*trials, shared)
            if apart is not None and apart.high < 0:
                shown.append((apart.high, one, other))
        if not shown:
            return None
        _, one, other = min(shown)
        apart_by = [self.levels[point[other]] - self.levels[point[one]] for point in (here, there)]
        if max(map(abs, apart_by)) <= self.log.rules.log_epsilon:
            return None  # they differ, but at both places the two numbers are about as good
        beside = [self._beside(place, dimension) for place in self.places]
        gains = tuple(zip(beside, map(math.exp, apart_by), strict=True))
        values = self.values[dimension]
        return Interaction(dimension, values[one], values[other], gains)

    def _trials(self, dimension: Dimension, place: _Point) -> dict[int, int]:
        """The measured trials by the number of a dimension's value, the other ones as there."""
        axis = [*self.values].index(dimension)
        return {
            point[axis]: trial
            for trial, point in enumerate(self.points)
            if point[:axis] == place[:axis]
            and point[axis + 1 :] == place[axis + 1 :]
            and self.log.states[trial].is_alive()
            and math.isfinite(self.levels[trial])
        }

    def _beside(self, place: _Point, but: Dimension) -> Config:
        """The values of a point, without one dimension."""
        return Config.of(
            (dimension, values[number])
            for (dimension, values), number in zip(self.values.items(), place, strict=True)
            if dimension != but
        )
