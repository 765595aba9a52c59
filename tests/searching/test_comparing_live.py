"""Values of the switch interval that take turns within runs, before anything else is measured."""

from typing import Any

import pytest

from tests.fakes import FakeLauncher
from tests.known import known
from tests.searching.tuning import INTERVALS, Tune, by_interval, row_of
from tuner.plan.config import Config
from tuner.present.knob_sentences import live_sentences
from tuner.searching.comparing_live import LivePlan
from tuner.study.answer import StudyAnswer


def intervals_measured(tune: Tune) -> list[str]:
    """The interval of each timed world, in order."""
    return [str(order.config).partition("switch_interval=")[2] for order in tune.launcher.orders]


def searched(tune: Tune, **changes: Any) -> StudyAnswer:
    asked: dict[str, Any] = {"space": INTERVALS, "budget": "60s", "step_ms": by_interval}
    return tune(**{**asked, "sigma": 0.01, **changes})


def sentence_of(answer: StudyAnswer) -> str:
    return " ".join(live_sentences(answer))


def test_what_is_better_live_comes_first_and_what_is_slower_is_left_out(tune: Tune) -> None:
    found = searched(tune)
    assert 4 <= len(tune.launcher.live) <= 6
    assert sum(order.min_time_s for order in tune.launcher.live) <= 12
    # The baseline's first world, then the best value's; the slower one has none.
    assert intervals_measured(tune)[:2] == ["5ms", "1ms"]
    assert "20ms" not in intervals_measured(tune)
    slow = row_of(found, Config.from_json({"*": {"switch_interval": 0.02}}))
    assert slow.outcome == "not-measured"
    assert known(slow.eliminated).startswith("switch_interval=20ms is 0.7")
    assert found.verdict == "better"
    assert str(found.best) == "switch_interval=1ms"
    better, worse = found.live_gains
    assert better.ratio.low < 1.5 < better.ratio.high
    assert worse.ratio.low < 0.75 < worse.ratio.high
    assert not better.is_contradicted
    assert known(better.fresh).estimate == pytest.approx(1.5, rel=0.05)


def test_a_memory_is_recognised_and_not_believed(tune: Tune) -> None:
    found = searched(tune, memory=0.6)
    assert "20ms" in intervals_measured(tune)
    assert known(found.live).remembers
    assert sentence_of(found) == (
        "switch_interval, live in 4 runs: not believed, as slices depend on the value before them."
    )
    assert str(found.best) == "switch_interval=1ms"


def test_a_sampler_tries_what_it_likes(tune: Tune) -> None:
    space = {**INTERVALS, "num_worker_threads": [*range(1, 17)]}
    searched(tune, space=space, sampler="random", budget="60s", max_blocks=8)
    assert len(tune.launcher.live) >= 4
    assert tune.log.sampling is not None
    assert any(each.endswith("20ms") for each in intervals_measured(tune))


def test_fresh_worlds_may_contradict(tune: Tune) -> None:
    """As of a knob whose values all act like the best one, once that was set."""

    class Bound(FakeLauncher):
        def run(self, order: Any) -> Any:
            self.step_ms = by_interval if order.live is None else lambda config: 2.0
            return super().run(order)

    launcher = Bound(sigma=0.01)
    found = tune(launcher, space=INTERVALS, budget="60s")
    assert str(found.best) == "switch_interval=1ms"
    assert found.live_gains[0].is_contradicted
    assert sentence_of(found).count("Fresh worlds contradict it.") == 2


def test_a_study_compares_live_once(tune: Tune) -> None:
    tune.interrupted(
        space=INTERVALS, budget="60s", step_ms=by_interval, stops=lambda seen: seen.block > 2
    )
    before = known(tune.log.live)
    found = searched(tune, resume=True)
    assert tune.launcher.live == []
    assert tune.log.live == before
    assert len(found.live_gains) == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"space": {"num_worker_threads": [1, 2]}, "step_ms": lambda config: 2.0}, None),
        ({"objective": "cpu_ms_per_step"}, None),
        ({"space": {"switch_interval": "5ms,200ms"}, "step_ms": lambda config: 2.0},
         "an interval is too long for slices"),
    ],
)  # fmt: skip
def test_it_is_off_where_it_cannot_work(
    tune: Tune, changes: dict[str, Any], why: str | None
) -> None:
    found = searched(tune, **changes)
    assert tune.launcher.live == []
    if why is None:
        assert found.live is None
        assert live_sentences(found) == []
        assert "live" not in found.to_json()
    else:
        assert sentence_of(found) == f"switch_interval was not compared live: {why}."
    assert not any("live" in each for each in tune.heard.told)


def test_slices_are_short_and_runs_as_many_as_fit() -> None:
    given: dict[str, Any] = {"values": 3, "interval_s": 0.005, "fixed_s": 0.5, "run_s": 5.0}
    long = LivePlan.of(rate=1000.0, total_s=60.0, **given)
    assert long == LivePlan(runs=6, measured_s=5.0, slice_s=0.05, left_out_s=0.02)
    slow = LivePlan.of(rate=50.0, total_s=12.0, **given)
    assert isinstance(slow, LivePlan)
    assert slow.runs == 4
    assert slow[1:] == pytest.approx((2.5, 0.16, 0.04))
    assert LivePlan.of(rate=50.0, total_s=10.0, **given) == "the budget is too short for it"
    short = LivePlan.of(rate=50.0, total_s=60.0, **{**given, "run_s": 2.0})
    assert short == "the run is too short for it"
    assert LivePlan.of(rate=20.0, total_s=60.0, **given) == (
        "a slice of 1 s has fewer than 20 steps or calls"
    )
