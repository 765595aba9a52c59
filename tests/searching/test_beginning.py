"""How a study begins: no budget is refused, and what it was too short for is said."""

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tuner
from testing.fakes import FakeLauncher, threads_of
from testing.known import known
from tests.fake_program import COMMAND, FakeProgramLauncher, TracedProgramLauncher
from tests.searching.test_calibrating import Hanging
from tests.searching.tuning import Tune, cpus, failing, forecasting, scaling
from tuner.api import SearchInterrupted
from tuner.plan.config import Config
from tuner.present.figures.worker_threads import forecast_curve
from tuner.present.how_to_use import continuing
from tuner.present.knob_sentences import forecast_alone_sentence, not_reached_sentence
from tuner.present.wording import verdict_sentence
from tuner.searching.fitting import ANSWER_BLOCKS
from tuner.study.answer import StudyAnswer
from tuner.study.search_commands import resume_command
from tuner.text import duration
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

LARGE = {"space": {"num_worker_threads": [*range(1, 33)], "intra_op_threads": [1, 2, 3, 4]}}


@pytest.mark.parametrize(
    ("budget", "worlds", "left"), [("1s", 1, 4), ("4s", 1, 4), ("7s", 2, 3), ("8.5s", 4, 3)]
)
def test_no_budget_is_refused(tune: Tune, budget: str, worlds: int, left: int) -> None:
    first = tune(step_ms=scaling, overhead_s=2.0, budget=budget)
    assert (first.worlds, first.blocks, len(first.not_reached)) == (worlds, worlds // 4, left)
    assert (first.interrupted, first.verdict, first.best) == (False, "undecided", first.baseline)
    assert first.elapsed_s < max(2.5, float(budget[:-1]) + 1.0)
    told = f"Not decided in {duration(first.elapsed_s)}: that was too short to compare PyTorch"
    assert verdict_sentence(first).startswith(told)
    assert f"{left} of 5 configurations" in (not_reached_sentence(first) or "")
    assert (tune.folder / "answer.json").exists()
    assert resume_command(first).endswith(f" --budget {first.needed_s}s")
    answer = tune(step_ms=scaling, overhead_s=2.0, budget=f"{first.needed_s}s", resume=True)
    assert answer.verdict is not None
    assert len(answer.rows) == 5
    assert answer.by_trial[0].config == first.baseline
    assert all(row.worlds_run for row in answer.rows)
    firsts = [threads_of(order.config) for order in tune.launcher.orders if order.steps is None]
    assert {*firsts}.isdisjoint(threads_of(row.config) for row in first.rows)
    assert answer.needed_s is None
    assert answer.elapsed_s == pytest.approx(first.elapsed_s + tune.spent_s)


@pytest.mark.parametrize("sampler", ["auto", "random"])
def test_a_larger_budget_may_have_a_sampler_propose(tune: Tune, sampler: str) -> None:
    first = tune(**LARGE, budget="6s", sampler=sampler)
    assert first.sampling is None
    assert len(first.not_reached) + len(first.rows) == 128
    answer = tune(**LARGE, budget="60s", sampler=sampler, resume=True)
    assert answer.sampling is not None
    assert 10 < len(answer.rows) < 128
    assert {row.config for row in first.rows} < {row.config for row in answer.rows}


@pytest.mark.parametrize(
    ("world", "budget", "said"),
    [
        ({"overhead_s": 9.0}, "12s", "9s was too short to measure {}"),
        ({"overhead_s": 9.0}, "20s", "{} was compared with"),
        # The baseline takes all the time.
        ({"fails": failing("crashed", 1), "failing_s": lambda config: 13.0}, "12s",
         "was too short to measure {}"),
    ],
)  # fmt: skip
def test_a_check_with_too_short_a_budget_is_undecided(
    tune: Tune, world: dict[str, Any], budget: str, said: str
) -> None:
    best = known(tune(step_ms=scaling, baseline={"num_worker_threads": 1}).best)
    launcher = FakeLauncher(**world)
    result = tuner.check(tune.folder, launcher=launcher, clock=launcher.clock, budget=budget)
    assert (result.outcome, result.exit_code, result.speedup) == ("undecided", 0, None)
    assert said.format(best) in str(result)
    assert result.to_json()["compared"] == best.to_json()


def test_a_check_says_what_cannot_run_however_short_its_budget_is(tune: Tune) -> None:
    kept = tune(step_ms=lambda config: 4.0 - threads_of(config) / 8)
    assert kept.verdict == "keep-baseline"
    fails = FakeLauncher(overhead_s=9.0, fails=failing("crashed", 16))
    result = tuner.check(tune.folder, launcher=fails, clock=fails.clock, budget="12s")
    assert result.outcome == "cannot-run"


def test_setting_up_may_spend_the_budget(tune: Tune) -> None:
    """An earlier session counts, and nothing is claimed of what did not run."""
    given = {"space": {"switch_interval": ["5ms", "1ms"]}}
    first = tune(Hanging(describing_s=61.0), budget="20s", **given)
    assert (first.worlds, first.verdict, first.needed_s) == (0, "undecided", 157)
    assert "in 1m01s: that was too short to compare" in verdict_sentence(first)
    again = tune(Hanging(describing_s=0.5), budget="20s", resume=True, **given)
    assert (again.worlds, again.verdict, len(again.rows)) == (0, "undecided", 1)
    answer = tune(Hanging(describing_s=61.0), budget="180s", resume=True, **given)
    assert answer.blocks > 0


def test_a_baseline_alone_that_did_not_run_is_not_kept(tune: Tune) -> None:
    alone = {"space": {"num_worker_threads": [16]}, "budget": "20s"}
    assert tune(Hanging(describing_s=61.0), **alone).verdict == "undecided"


@pytest.mark.parametrize(
    ("fail", "budget", "rows", "ran", "left"),
    [([1], "12s", 3, {2, 16}, 2), ([1], "4.5s", 2, set(), 3), ([1, 2, 4, 8], "20s", 5, set(), 0)],
)
def test_where_the_best_bet_cannot_run_the_next_one_is_tried(
    tune: Tune, fail: list[int], budget: str, rows: int, ran: set[int], left: int
) -> None:
    answer = tune(step_ms=scaling, overhead_s=2.0, budget=budget, fails=failing("crashed", *fail))
    assert {threads_of(row.config) for row in answer.rows if row.samples} == ran
    assert (len(answer.rows), len(answer.not_reached)) == (rows, left)
    assert (answer.needed_s is None) == (left == 0)
    assert answer.elapsed_s < float(budget[:-1]) + 1.0


LIMITED: dict[str, Any] = {
    "step_ms": lambda config: 160.0 / threads_of(config), "cpu_cores": cpus, "overhead_s": 2.0,
    "space": {"num_worker_threads": [16, 8, 1]}, "baseline": {"num_worker_threads": 2},
    "require": "cpu_cores<=10",
}  # fmt: skip


def test_what_breaks_a_limit_gives_its_place_to_the_next_bet(tune: Tune) -> None:
    answer = tune(**LIMITED, budget="24s")
    assert [threads_of(row.config) for row in answer.rows if row.samples] == [8, 2]
    assert (answer.verdict, threads_of(known(answer.best))) == ("better", 8)
    assert "what was tried breaks a limit: measuring num_worker_threads=8" in tune.heard.told
    (broken,) = (row for row in answer.rows if threads_of(row.config) == 16)
    assert "cpu_cores 16 > 10" in (broken.eliminated or "")
    assert answer.elapsed_s < 24.0 + 3.0


def test_what_breaks_a_limit_late_gives_its_place_too(tune: Tune) -> None:
    seen: Counter[int] = Counter()

    def cores(config: Config) -> float:
        seen[threads_of(config)] += 1
        return 16.0 if threads_of(config) == 16 and seen[16] > 1 else 4.0

    answer = tune(**{**LIMITED, "cpu_cores": cores}, budget="36s")
    assert (answer.verdict, threads_of(known(answer.best))) == ("better", 8)


def test_what_broke_a_limit_in_an_earlier_study_is_no_first_bet(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    without = {**LIMITED, "require": None}
    Tune(Path("studies/first"))(**without, budget="90s", name="first")
    second = Tune(Path("studies/second"))
    second(**LIMITED, budget="12s", name="second")
    tried = [*dict.fromkeys(threads_of(order.config) for order in second.launcher.orders)]
    assert tried[:2] == [2, 8]


def test_a_first_world_that_fails_decides_nothing(tune: Tune) -> None:
    baseline = {"num_worker_threads": 16, "intra_op_threads": 1}
    fails = failing("crashed", 16, when=lambda world: world < 2)
    answer = tune(fails=fails, **LARGE, baseline=baseline, budget="60s")
    assert answer.sampling is not None
    assert answer.by_trial[0].worlds_failed == 2
    assert answer.by_trial[0].samples > 0
    assert not answer.baseline_failed


def tuned(tune: Tune, launcher: FakeProgramLauncher, **changes: Any) -> StudyAnswer:
    keys = {"space": {"num_worker_threads": [4, 8]}, "out": tune.folder, "name": "udf", **changes}
    return tuner.tune(program=COMMAND, launcher=launcher, clock=launcher.clock, **keys)


BESTS = {"num_worker_threads": [1, 2, 16], "switch_interval": ["5ms", "1ms"]}


def test_what_is_too_short_for_all_compares_the_best_bets(tune: Tune) -> None:
    def step_ms(config: Config) -> float:
        return 8.0 if config.for_role("caller").get("switch_interval", 5e-3) == 5e-3 else 4.0

    given = {"step_ms": step_ms, "overhead_s": 2.0, "space": BESTS}
    first = tune(**given, budget="26s")
    assert first.verdict == "better"
    assert first.elapsed_s < 26.0 + 2.0
    assert [str(row.config) for row in first.rows] == [
        "num_worker_threads=16 switch_interval=1ms",
        "num_worker_threads=16 switch_interval=5ms",
    ]
    assert [row.samples for row in first.rows] == [first.blocks] * 2
    assert first.blocks >= ANSWER_BLOCKS
    assert len(first.not_reached) == 4
    assert first.to_json()["not_reached"] == 4
    assert f"--budget {first.needed_s}s" in resume_command(first)
    assert any(
        "26s is too short for all 6 configurations: meas" in each for each in tune.heard.told
    )
    again = tune(**given, budget="26s", resume=True)
    assert (again.blocks, len(again.rows)) == (first.blocks, 2)
    assert any(f"--budget {first.needed_s}s or more" in each for each in tune.heard.told)
    answer = tune(**given, budget=f"{first.needed_s}s", resume=True)
    assert (answer.not_reached, len(answer.rows), answer.needed_s) == ([], 6, None)
    assert answer.blocks > first.blocks
    assert all(row.samples for row in answer.rows)


def test_nothing_is_claimed_of_what_is_not_reached(tune: Tune) -> None:
    as_it_is = "num_worker_threads=16 switch_interval=5ms"
    first = tune(step_ms=lambda config: 6.0 if str(config) == as_it_is else 9.0, overhead_s=2.0,
                 space=BESTS, budget="26s")  # fmt: skip
    assert first.verdict == "keep-baseline"
    assert "nothing that was reached gains 3 %" in verdict_sentence(first)
    assert not_reached_sentence(first) == (
        f"Not reached in {duration(first.elapsed_s)}: 3 of 6 configurations, such as "
        "num_worker_threads=1 switch_interval=1ms. Nothing is claimed of them."
    )
    assert continuing(first) is not None


@pytest.mark.parametrize(
    ("ratios", "second", "said"),
    [
        ({4: 0.5, 8: 1.2}, "cpu_binding=none num_worker_threads=4",
         "Forecast, not measured: num_worker_threads=8 would be 0.83 times as fast."),
        ({4: 0.97, 8: math.inf}, "cpu_binding=equal num_worker_threads=16",
         "Forecast, not measured: num_worker_threads=8 would deadlock."),
    ],
)  # fmt: skip
def test_a_short_budget_goes_to_what_the_trace_of_a_first_run_has_as_the_best_bet(
    tune: Tune, ratios: dict[int, float], second: str, said: str
) -> None:
    launcher = TracedProgramLauncher(lambda config: 3.0, run_s=(3.0, 3.0), first_runs=2)
    with forecasting(ratios, role="agent"):
        answer = tuned(
            tune, launcher, budget="60s", window="off",
            space={"cpu_binding": ["none", "equal"], "num_worker_threads": [4, 8, 16]},
        )  # fmt: skip
    assert [order.trace is not None for order in launcher.orders][:2] == [True, False]
    assert [str(answer.by_trial[trial].config) for trial in (0, 1)] == [
        "cpu_binding=none num_worker_threads=16", second,
    ]  # fmt: skip
    assert answer.files.trace(answer.baseline).is_file()
    assert answer.why["baseline"]
    # They are shown of what was not reached, too.
    told = {row.config: row.forecast for row in answer.rows if row.forecast}
    told |= answer.forecasts_alone
    assert [each.ratio or math.inf for each in told.values()] == [*ratios.values()]
    assert 4 in known(forecast_curve(answer)).forecast
    assert forecast_alone_sentence(answer) == said


def test_a_trace_that_there_is_needs_no_time_again(tune: Tune) -> None:
    launcher = TracedProgramLauncher(lambda config: 5.0, run_s=(5.5, 5.5), first_runs=2)
    answer = tuned(tune, launcher, budget="76s", space={"num_worker_threads": [4, 16]})
    assert (answer.needed_s, answer.blocks) == (None, 4)


@pytest.mark.parametrize("baseline", [None, {"num_worker_threads": 2}])
@pytest.mark.parametrize(("budget_s", "runs"), [(16, ""), (30, "w"), (38, "t")])
def test_a_program_too_long_for_a_comparison_is_run_as_often_as_there_is_time(
    tune: Tune, baseline: dict[str, int] | None, budget_s: int, runs: str
) -> None:
    launcher = TracedProgramLauncher(lambda config: 14.0, first_runs=2, run_s=(14.5,))
    began_s = launcher.clock.now_s
    first = tuned(tune, launcher, budget=budget_s, baseline=baseline)
    assert (first.verdict, first.blocks, first.best) == ("undecided", 0, first.baseline)
    assert launcher.clock.now_s - began_s < budget_s
    # A run as it is comes first, a trace before a world.
    assert "".join("w" if order.trace is None else "t" for order in launcher.orders) == runs
    assert first.worlds == len(runs) + (baseline is None)
    own = [order.config for order in launcher.orders if order.trace is None]
    for more in (budget_s + 10, "8m"):
        # A session that goes on with it runs the program as it is once more.
        launcher = TracedProgramLauncher(lambda config: 14.0, first_runs=2, run_s=(14.5,))
        answer = tuned(tune, launcher, budget=more, baseline=baseline, resume=True)
        own += [order.config for order in launcher.orders if order.trace is None]
    assert answer.blocks > 0
    assert answer.not_reached == []
    worlds = own.count(answer.baseline) + (baseline is None)
    assert answer.by_trial[0].worlds_run == worlds


@pytest.mark.parametrize(("fails", "runs"), [({2}, 4), ({2, 4}, 8)])
def test_a_baseline_that_fails_leaves_the_others_the_time_and_the_sampler(
    tune: Tune, fails: set[int], runs: int
) -> None:
    class Failing(FakeProgramLauncher):
        def run(self, order: WorldOrder) -> Measurement | Failure:
            if threads_of(order.config) not in fails:
                return super().run(order)
            self.clock.advance(1.0)
            return Failure(failure="crashed", message="it crashed", world_s=1.0)

    launcher = Failing(lambda config: 14.0, first_runs=2, run_s=(14.5,))
    answer = tuned(tune, launcher, budget="38s", baseline={"num_worker_threads": 2})
    assert answer.baseline_failed
    assert {threads_of(row.config): row.worlds_run for row in answer.rows}.items() >= {(runs, 1)}
    launcher = Failing(lambda config: 2.0, first_runs=2, run_s=(2.5,))
    given = {"space": LARGE["space"], "baseline": {"num_worker_threads": 2}, "overwrite": True}
    assert tuned(tune, launcher, budget="20m", **given).sampling is not None


def test_the_front_is_looked_for_when_there_is_time(tune: Tune) -> None:
    given = {"objective": "wall_s,cpu_s", "baseline": {"num_worker_threads": 2}}
    for budget, resume in (("16s", False), ("12m", True)):
        launcher = FakeProgramLauncher(lambda config: 14.0, first_runs=1, run_s=(14.5,))
        answer = tuned(tune, launcher, budget=budget, resume=resume, **given)
    assert answer.front is not None
    assert tune.log.blocks("exploration") > 0


def test_a_program_is_not_run_twice_as_it_is_where_a_comparison_needs_the_time(tune: Tune) -> None:
    launcher = FakeProgramLauncher(lambda config: 14.0, first_runs=2)
    answer = tuned(tune, launcher, budget="60s")
    assert sorted(threads_of(order.config) for order in launcher.orders) == [4, 16]
    assert (answer.worlds, answer.blocks, len(answer.not_reached)) == (3, 1, 1)
    assert answer.elapsed_s < 60.0


def test_a_first_block_that_was_interrupted_is_left_out(tune: Tune) -> None:
    runs = itertools.count()

    def active_s(config: Config) -> float:
        if next(runs) == 2:  # as it is, and a world of the block
            raise KeyboardInterrupt
        return 14.0

    with pytest.raises(SearchInterrupted):
        tuned(tune, FakeProgramLauncher(active_s, first_runs=1), budget="60s")
    launcher = FakeProgramLauncher(lambda config: 14.0, first_runs=1)
    tuned(tune, launcher, budget="4m", resume=True)
    measured = tune.log.rows.measured("race")
    assert 0 not in measured
    assert all(0 in each and len(each) > 1 for each in measured.values())


@pytest.mark.parametrize(("budget", "blocks"), [("42s", 3), ("43s", 4)])
def test_one_of_the_first_blocks_may_end_a_little_late(
    tune: Tune, budget: str, blocks: int
) -> None:
    launcher = FakeProgramLauncher(lambda config: 4.5, first_runs=1)
    assert tuned(tune, launcher, budget=budget).blocks == blocks


@pytest.mark.parametrize("sampler", ["tpe", "grid"])
@pytest.mark.parametrize("runs", [(5.5, 5.5), (5.5,)])
def test_the_budget_that_is_said_to_be_enough_is_enough(
    tune: Tune, sampler: str, runs: tuple[float, ...]
) -> None:
    def again(budget: str, **changes: Any) -> StudyAnswer:
        launcher = FakeProgramLauncher(lambda config: 5.0, first_runs=2, run_s=runs)
        changes |= {"space": {"num_worker_threads": [*range(2, 18)]}, "max_blocks": 4}
        return tuned(tune, launcher, budget=budget, sampler=sampler, **changes)

    needed_s = again("16s").needed_s
    for _ in range(2):
        answer = again(f"{needed_s}s", resume=True)
        assert answer.needed_s is None
        assert answer.worlds > 20
        again("60s", overwrite=True)
        needed_s = tuner.load_study(tune.folder).needed_s


@pytest.mark.parametrize("overhead_s", [2.0, 3.0])
def test_what_is_far_ahead_in_its_only_world_is_said_and_measured_next(
    tune: Tune, overhead_s: float
) -> None:
    def step_ms(config: Config) -> float:
        return {1: 50.0, 16: 820.0}.get(threads_of(config), 700.0)

    asked: dict[str, Any] = {"step_ms": step_ms, "overhead_s": overhead_s}
    first = tune(**asked, space={"num_worker_threads": [1, 2, 4, 8]}, budget=f"{5 * overhead_s}s")
    said = verdict_sentence(first)
    assert said.endswith(
        "too short for an interval, but num_worker_threads=1 had 50 ms in its only world, the "
        "baseline 820 ms."
    )
    ahead = first.to_json()["far_ahead"]
    assert (ahead["value"], ahead["baseline_value"]) == pytest.approx((50, 820))
    resumed = tune(**asked, space={"num_worker_threads": [1, 2, 4, 8]}, budget="3m", resume=True)
    timed = [threads_of(order.config) for order in tune.launcher.orders if order.trace is None]
    assert {*timed[:4]} == {1, 16}
    assert (resumed.verdict, threads_of(known(resumed.best))) == ("better", 1)
    assert resumed.far_ahead is None
