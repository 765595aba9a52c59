"""What each knob gave, which number of threads is best, and where knobs interact."""

import itertools
import math
import random
from collections.abc import Callable

import pytest

from testing.known import known
from testing.made import calibrated, log_of, plan_of, took, world
from tuner.decide.interim_analysis import InterimAnalysis
from tuner.plan.config import Config, Dimension
from tuner.plan.study_plan import StudyPlan
from tuner.study.log import StudyLog
from tuner.study.together import Together, together_of

Times = Callable[[int, str], float]
BASELINE = {"num_worker_threads": 16}
SPACE = {"num_worker_threads": [16, 1, 4], "cpu_binding": ["none", "equal"]}
BOTH = plan_of(space=SPACE, baseline=BASELINE)


def added_up(threads: int, binding: str) -> float:
    """Binding gains 1.25 times, 1 thread 1.1 times."""
    return (1 / 1.1 if threads == 1 else 1.0) / (1.25 if binding == "equal" else 1.0)


def interacting(threads: int, binding: str) -> float:
    """Bound, all numbers of threads are alike."""
    return 0.7 if binding == "equal" else (0.8 if threads == 1 else 1.0)


def measured(times: Times, plan: StudyPlan = BOTH, blocks: int = 20) -> StudyLog:
    noise = random.Random(3)
    configs = plan.candidates()

    def step_s(trial: int) -> float:
        values = configs[trial].for_role("server")
        binding = str(values.get("cpu_binding", "none"))
        return times(int(str(values["num_worker_threads"])), binding) * noise.gauss(1, 0.02)

    race = [
        world("race", trial, block, took(step_s(trial)))
        for block, trial in itertools.product(range(blocks), range(len(configs)))
    ]
    log = log_of(plan, *calibrated(range(len(configs))), *race)
    log.looks = (InterimAnalysis(blocks, 0.04, 1.0, 1.0),)
    return log


def found_of(log: StudyLog, binding: str, threads: int) -> Together:
    config = Config.from_json({"*": {"num_worker_threads": threads, "cpu_binding": binding}})
    return known(together_of(log, log.configs.index(config)))


def test_each_knob_gives_what_was_planted() -> None:
    found = found_of(measured(added_up), "equal", 1)
    gains = {str(gain.dimension): gain for gain in found.gains}
    assert [*gains] == ["cpu_binding", "num_worker_threads"]
    for knob, value, truth in (("cpu_binding", "equal", 1.25), ("num_worker_threads", 1, 1.1)):
        interval = known(gains[knob].interval)
        assert gains[knob].value == value
        assert interval.low < truth < interval.high < interval.low * 1.2
        assert gains[knob].gain == pytest.approx(truth, rel=0.02)
    assert found.interactions == ()


def test_a_knob_whose_other_value_left_early_has_a_gain_without_an_interval() -> None:
    early = [record for record in measured(added_up).records if record.block < 3]
    log = log_of(BOTH, *early)
    log.looks = (InterimAnalysis(3, 1e-9, 1.0, 1.0),)
    found = found_of(log, "equal", 1)
    assert [gain.interval for gain in found.gains] == [None, None]
    assert [gain.gain for gain in found.gains] == pytest.approx([1.25, 1.1], rel=0.04)


def test_the_best_number_of_threads_is_that_of_each_binding() -> None:
    found = found_of(measured(interacting), "equal", 4)
    bound, unbound = found.best_threads
    assert (str(bound.beside), bound.best, bound.is_shown) == ("cpu_binding=equal", 4, False)
    assert bound.near == bound.tried == (1, 4, 16)
    assert (str(unbound.beside), unbound.best, unbound.is_shown) == ("cpu_binding=none", 1, True)
    assert unbound.near == (1,)
    alone = found_of(measured(interacting), "none", 1)
    assert [str(thread.beside) for thread in alone.best_threads] == ["cpu_binding=none"]
    # The interaction is named.
    (both,) = found.interactions
    assert {both.value, both.other} & {1}
    gains = {str(beside): abs(math.log(gain)) for beside, gain in both.gains}
    assert gains["cpu_binding=equal"] < 0.02
    assert gains["cpu_binding=none"] == pytest.approx(math.log(1.25), abs=0.02)


def test_no_interaction_is_named_of_numbers_that_are_about_as_good_everywhere() -> None:
    def a_little(threads: int, binding: str) -> float:
        few = 1.025 if binding == "none" else 0.98
        return (few if threads == 1 else 1.0) * (0.7 if binding == "equal" else 1.0)

    assert found_of(measured(a_little, blocks=200), "equal", 1).interactions == ()


def test_what_is_best_of_one_role_is_said_beside_the_other() -> None:
    by_role = {
        "caller": {"num_worker_threads": [2, 8]},
        "server": {"num_worker_threads": [1, 4]},
        "*": {"cpu_binding": ["none", "equal"]},
    }
    found = known(together_of(measured(interacting, plan_of(space=by_role, baseline=BASELINE)), 1))
    assert {str(thread.dimension): [*thread.beside.values] for thread in found.best_threads} == {
        "caller.num_worker_threads": [
            Dimension("*", "cpu_binding"), Dimension("server", "num_worker_threads"),
        ],
        "server.num_worker_threads": [
            Dimension("*", "cpu_binding"), Dimension("caller", "num_worker_threads"),
        ],
    }  # fmt: skip


def test_two_knobs_without_blocks_have_empty_entries() -> None:
    nothing = log_of(BOTH)
    assert together_of(nothing, 1) == Together()
    assert together_of(nothing, None) == Together()
