"""Whole studies on the fake launcher: what is measured, in which order, and for how long."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeLauncher, threads_of
from tests.searching.tuning import Listening, Tune, scaling
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.present.knob_sentences import unmeasured_sentences
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, FailureKind, Measurement


def test_the_baseline_is_measured_first_and_in_every_block(tune: Tune) -> None:
    launcher = FakeLauncher(step_ms=scaling, sigma=0.05)
    result = tune(launcher)
    assert str(launcher.orders[0].config) == "num_worker_threads=16"
    baseline = next(row for row in result.rows if row.trial == 0)
    assert baseline.label == "num_worker_threads=16"
    # Twice: it is compared with itself, too.
    assert baseline.samples == 2 * result.blocks


def test_the_order_in_blocks_is_random_and_the_same_again(tune: Tune, tmp_path: Path) -> None:
    first, again, other = (FakeLauncher(step_ms=scaling) for _ in range(3))
    tune(first)
    # Each in a folder of its own: studies beside it would decide what comes first.
    tune(again, out=str(tmp_path / "elsewhere" / "again"))
    tune(other, out=str(tmp_path / "nowhere" / "other"), seed=1)
    orders = [[str(order.config) for order in each.orders] for each in (first, again, other)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    blocks = [tuple(orders[0][start : start + 5]) for start in range(5, 20, 5)]
    assert len(set(blocks)) > 1
    assert all(len(set(block)) == 4 for block in blocks)


def test_a_calibration_fixes_the_number_of_steps(tune: Tune) -> None:
    launcher = FakeLauncher(step_ms=scaling)
    tune(launcher, min_time="0.4s")
    steps = {str(o.config): o.steps for o in launcher.orders if o.steps is not None}
    assert steps["num_worker_threads=2"] == 120  # 1.2 x 0.4 s / 4 ms
    assert steps["num_worker_threads=8"] == 240
    calibrations = [o for o in launcher.orders if o.steps is None]
    assert len(calibrations) == 5


def test_the_dominated_are_eliminated_and_say_why(tune: Tune) -> None:
    result = tune(FakeLauncher(step_ms=scaling, sigma=0.05), budget="60s")
    rows = {row.label: row for row in result.rows}
    # Four times as slow in its first world; twice as slow in every one of four blocks.
    for label, samples in (("num_worker_threads=1", 0), ("num_worker_threads=2", 4)):
        assert rows[label].outcome == "eliminated"
        assert rows[label].samples == samples
        assert not rows[label].tied_with_best
    first_alone = rows["num_worker_threads=1"].eliminated
    assert first_alone is not None
    assert first_alone.endswith(" behind num_worker_threads=16 in one world")
    assert unmeasured_sentences(result) == [f"In no block: num_worker_threads=1 ({first_alone})."]
    told = {each["eliminated"] for each in result.to_json()["trials"]}
    assert told >= {None, first_alone, rows["num_worker_threads=2"].eliminated}


def test_the_budget_is_kept(tune: Tune) -> None:
    launcher = FakeLauncher(sigma=0.3)
    started_s = launcher.clock()
    result = tune(launcher, budget="40s")
    assert launcher.clock() - started_s <= 40
    assert result.elapsed_s > 36
    assert result.elapsed_s == pytest.approx(launcher.clock() - started_s)


def test_setting_up_may_not_spend_what_the_first_world_needs(tune: Tune, tmp_path: Path) -> None:
    class SlowToDescribe(FakeLauncher):
        def subject_of(self, *arguments: Any) -> Any:
            self.clock.advance(61.0)
            return super().subject_of(*arguments)

    told = "a budget of 20s is too short: setting up alone took 1m01s"
    with pytest.raises(UsageError, match=told):
        tune(SlowToDescribe(), budget="20s")
    assert not (tmp_path / "study").exists()


def test_a_world_may_not_take_much_longer_than_the_baseline(tune: Tune) -> None:
    launcher = FakeLauncher(overhead_s=1.0)
    tune(launcher, budget="90s", deadline="100s")
    first, *later = [o.deadline_s for o in launcher.orders if threads_of(o.config) == 16]
    assert first == 30  # a world that takes longer leaves no time to compare it
    left_s = [90 + 1.05 + 2 - 1.2 * number for number, _ in enumerate(launcher.orders)]
    assert max(later) == pytest.approx(max(left_s), rel=0.1)
    candidates = [o.deadline_s for o in launcher.orders if threads_of(o.config) != 16]
    assert max(candidates) == pytest.approx(20 * 1.05, rel=0.1)
    assert sorted(candidates)[len(candidates) // 2] == max(candidates)


class Uneven(FakeLauncher):
    """Its steps differ more than its worlds do, so long worlds tell most."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        outcome = super().run(order)
        if isinstance(outcome, Failure):
            return outcome
        times = itertools.cycle([1.0, 0.5, 1.5])
        return outcome.model_copy(
            update={"step_s": tuple(step * next(times) for step in outcome.step_s)}
        )


def test_a_world_that_is_to_last_long_has_time_for_it(tune: Tune) -> None:
    """Longer than 20 first worlds; and never so long that `--deadline` would end it."""
    launcher = Uneven(step_ms=lambda config: 100.0, sigma=0.005)
    tune(launcher, min_time="4s", deadline="30s", budget="20m", max_blocks=10, epsilon="0.001%")
    planned = [(0.1 * o.steps, o.deadline_s) for o in launcher.orders if o.steps is not None]
    longest_s, _ = max(planned)
    assert 1.5 * 4 < longest_s < 15
    assert all(deadline_s > 2 * steps_s for steps_s, deadline_s in planned)


def test_one_that_is_out_is_said_to_be_worse_only_where_it_is(tune: Tune) -> None:
    times = {16: 2.0, 1: 2.2, 2: 2.0, 4: 1.98}
    launcher = FakeLauncher(sigma=0.01, step_ms=lambda config: times[threads_of(config)])
    result = tune(
        launcher, space={"num_worker_threads": [1, 2, 4]}, baseline={"num_worker_threads": 16},
        epsilon=0.05, max_blocks=40, budget="120s",
    )  # fmt: skip
    reasons = {row.label: row.eliminated for row in result.rows}
    worse = reasons["num_worker_threads=1"]
    assert worse is not None
    assert worse.startswith("shown to be worse than the baseline after ")
    others = [reasons[f"num_worker_threads={each}"] for each in (2, 4)]
    assert any(str(each).startswith("shown to gain at most 5 % after ") for each in others)
    assert not any("worse" in str(each) for each in others)


def test_one_that_comes_back_is_told(tune: Tune) -> None:
    """One is beaten by a rival that later is no longer the best."""
    launcher, listening = FakeLauncher(sigma=0.02), Listening()

    def step_ms(config: Config) -> float:
        times = {1: 1.0 if len(launcher.orders) < 30 else 9.0, 2: 1.5, 4: 1.6, 16: 2.0}
        return times[threads_of(config)]

    launcher.step_ms = step_ms
    tune(
        launcher, space={"num_worker_threads": [1, 2, 4]}, baseline={"num_worker_threads": 16},
        confidence=0.9999, max_blocks=30, observer=listening,
    )  # fmt: skip
    about = [told for told in listening.told if told.startswith("num_worker_threads=4: ")]
    assert about[0].startswith("num_worker_threads=4: eliminated, ")
    assert about[1].startswith("num_worker_threads=4: back in the race after ")


@pytest.mark.parametrize("kind", ["timed-out", "deadlocked", "crashed"])
def test_what_hangs_in_a_block_is_not_run_again_in_it(tune: Tune, kind: FailureKind) -> None:
    launcher = FakeLauncher(
        step_ms=scaling,
        sigma=0.05,
        fails=lambda config, world: kind if threads_of(config) == 8 and world else None,
    )
    tune(launcher, max_blocks=2)
    blocks = [o.seed for o in launcher.orders if threads_of(o.config) == 8 and o.steps is not None]
    assert max(map(blocks.count, blocks)) == (4 if kind == "crashed" else 1)
