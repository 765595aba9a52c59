"""What live comparisons order, and when fresh worlds contradict them."""

import math

import pytest

from tests.study import made
from tuner.decide.statistics import Interval
from tuner.plan.config import Config
from tuner.study.live_evidence import LiveGain, in_live_order, slower_live
from tuner.study.log import StudyLog
from tuner.study.records import Live

DEFAULT, SHORT = (Config.from_json({"*": {"switch_interval": s}}) for s in (0.005, 0.001))
SPACE = {"num_worker_threads": [16, 1], "switch_interval": ["5ms", "1ms", "20ms", "2ms"]}


def log_of(*gains: tuple[float, ...]) -> StudyLog:
    """A log of all of the space, in which so many of its intervals took turns."""
    log = made.log_of(made.plan_of(space=SPACE))
    alike = [config for config in log.configs if "threads=16" in str(config)]
    documents = tuple(each.to_json() for each in alike[: len(gains[0])])
    log.live = Live(configs=documents, gains=gains)
    return log


RUNS = [(0.0, 0.3, -0.4 + wobble) for wobble in (0.0, 0.01, 0.02, -0.01)]


def test_the_best_comes_first_with_any_number_of_threads() -> None:
    log = log_of(*RUNS)
    ordered = in_live_order(log, range(len(log.configs)))
    # What did not take turns is as the baseline, as far as is known.
    intervals = [str(log.configs[trial]).rpartition("=")[2] for trial in ordered]
    assert intervals == ["1ms", "1ms", "5ms", "2ms", "5ms", "2ms", "20ms", "20ms"]


def test_what_is_shown_to_be_slower_is_left_out() -> None:
    log = log_of(*RUNS)
    said = {str(log.configs[trial]): slower_live(log, trial) for trial in range(len(log.configs))}
    assert [name for name, why in said.items() if why] == [
        "num_worker_threads=16 switch_interval=20ms", "num_worker_threads=1 switch_interval=20ms",
    ]  # fmt: skip
    assert "switch_interval=20ms is 0.67 times as fast as switch_interval=5ms in runs" in str(said)
    # The baseline's own interval, where another one is far better.
    far = log_of(*((0.0, 0.8 + each, 0.0) for each in (0.0, 0.01, 0.02, -0.01)))
    left = [trial for trial in range(len(far.configs)) if slower_live(far, trial)]
    assert {str(far.configs[each]).rpartition("=")[2] for each in left} == {"5ms", "20ms"}


@pytest.mark.parametrize(
    ("fresh", "contradicted"),
    [
        (None, False),
        (Interval(1.25, 1.15, 1.35), False),
        (Interval(1.6, 1.5, 1.7), True),
        (Interval(1.0, 0.9, 1.05), True),
        # One pair has a direction.
        (Interval(1.5, 0.0, math.inf), False),
        (Interval(0.9, 0.0, math.inf), True),
    ],
)
def test_fresh_worlds_contradict(fresh: Interval | None, contradicted: bool) -> None:
    gain = LiveGain(config=SHORT, over=DEFAULT, ratio=Interval(1.2, 1.1, 1.3), fresh=fresh)
    assert gain.is_contradicted == contradicted
