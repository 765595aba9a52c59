"""Searches in which a configuration is faster because it does less work."""

from pathlib import Path
from typing import Any

import pytest

import tuner
from testing.known import known
from tests.fake_program import COMMAND, FakeProgramLauncher
from tests.present.screen import printed
from tests.searching.tuning import Listening
from tuner.plan.config import Config
from tuner.present.notes import study_note
from tuner.present.pages import report_html
from tuner.present.study_result import StudyResult
from tuner.present.summary import print_summary
from tuner.study.stored import find_study

FAILS = "num_worker_threads=1 fails"


def threads(config: Config) -> int:
    return int(str(config.for_role("agent").get("num_worker_threads", 16)))


def skipping(config: Config) -> dict[str, Any]:
    """With one thread most calls fail, and with two a few."""
    return {"calls": 24, "failed": {1: 20, 2: 6}.get(threads(config), 0), "functions": {"work": 24}}


def active_s(config: Config) -> float:
    return {1: 0.45, 2: 0.6, 4: 0.8}.get(threads(config), 0.9)


def searched(folder: Path, launcher: FakeProgramLauncher, **changes: Any) -> StudyResult:
    wanted = {
        "space": {"num_worker_threads": [1, 16]}, "budget": "60s", "out": folder / "study",
        **changes,
    }  # fmt: skip
    return tuner.tune(program=COMMAND, launcher=launcher, clock=launcher.clock, **wanted)


def launcher(**changes: Any) -> FakeProgramLauncher:
    return FakeProgramLauncher(
        **{"active_s": active_s, "calls": (24, 24), "did": skipping, **changes}
    )


def test_what_fails_more_calls_is_never_better(tmp_path: Path) -> None:
    heard = Listening()
    result = searched(tmp_path, launcher(), observer=heard)
    row = known(result.by_trial.get(1))
    assert (result.verdict, result.best, result.leader_trial) == (
        "keep-baseline",
        result.baseline,
        0,
    )
    assert row.outcome == "fails-more"
    said = known(row.failure)
    assert said.startswith("fails 40 of 48 calls of work, the baseline none")
    told = "num_worker_threads=1: fails 20 of 24 calls of work, the baseline none"
    assert told in heard.told
    # Its second world has shown it, so there is no further one.
    assert row.worlds_run == 2


def test_it_is_said_in_each_medium(tmp_path: Path) -> None:
    result = searched(tmp_path, launcher())
    said = f"{FAILS} 40 of 48 calls of work, the baseline none"
    for whole in (False, True):
        shown = " ".join(printed(print_summary, result, whole=whole).split())
        assert said in shown
        assert "fails-more" in shown
        assert "times as fast as the program" not in shown
    assert said in study_note(result).replace("\\", "")
    assert said in report_html(result, [])
    trial = result.to_json()["trials"][-1]
    assert (trial["outcome"], trial["speedup"]) == ("fails-more", None)
    assert f"num_worker_threads=1 {trial['failure']}" == said
    assert "fails-more" in (tmp_path / "study/trials.csv").read_text()


def test_another_that_does_the_work_is_recommended(tmp_path: Path) -> None:
    space = {"num_worker_threads": [1, 2, 4, 16]}
    result = searched(tmp_path, launcher(), space=space, budget="120s")
    assert (result.verdict, str(result.best)) == ("better", "num_worker_threads=4")
    outcomes = {str(row.config): row.outcome for row in result.rows}
    assert outcomes["num_worker_threads=1"] == outcomes["num_worker_threads=2"] == "fails-more"


def test_a_single_world_is_enough_for_no_bet(tmp_path: Path) -> None:
    result = searched(tmp_path, launcher(), max_blocks=1)
    assert result.verdict in ("undecided", "keep-baseline")
    assert result.leader_trial == 0
    assert result.best == result.baseline


def test_calls_that_fail_as_often_with_each_configuration_are_fine(tmp_path: Path) -> None:
    failing = {"calls": 24, "failed": 6, "functions": {"work": 24}}
    result = searched(tmp_path, launcher(did=lambda config: failing))
    assert (result.verdict, str(result.best)) == ("better", "num_worker_threads=1")


def test_fewer_calls_are_less_work(tmp_path: Path) -> None:
    def did(config: Config) -> dict[str, Any]:
        made = 10 if threads(config) == 1 else 24
        return {"calls": made, "failed": 0, "functions": {"work": made}}

    result = searched(tmp_path, launcher(did=did))
    assert result.verdict == "keep-baseline"
    assert result.by_trial[1].failure == "makes 10 calls of work in each run, the baseline 24"


def test_a_study_that_knows_no_failed_calls_decides_as_before(tmp_path: Path) -> None:
    result = searched(tmp_path, launcher(did=lambda config: {}))
    assert result.verdict == "better"


def test_it_stays_out_of_a_study_that_is_resumed_and_of_its_answer(tmp_path: Path) -> None:
    searched(tmp_path, launcher())
    folder = str(tmp_path / "study")
    assert find_study(folder).by_trial[1].outcome == "fails-more"
    result = searched(tmp_path, launcher(), budget="120s", resume=True)
    assert (result.verdict, result.by_trial[1].outcome) == ("keep-baseline", "fails-more")
    assert result.by_trial[1].worlds_run == 2


def test_a_limit_and_a_second_objective_do_not_bring_it_back(tmp_path: Path) -> None:
    limited = searched(tmp_path, launcher(), require="peak_rss_mb<=1000")
    assert limited.verdict == "keep-baseline"
    both = searched(
        tmp_path, launcher(), objective="rpc_active_s,cpu_s", budget="90s", overwrite=True
    )
    front = known(both.front)
    assert front.trials == [0]
    assert both.verdict == "keep-baseline"


def test_a_sampler_learns_that_it_is_no_answer(tmp_path: Path) -> None:
    space = {
        "num_worker_threads": [1, 2, 4, 8, 16], "intra_op_threads": [1, 2, 4],
        "cpu_binding": ["none", "equal"],
    }  # fmt: skip
    result = searched(tmp_path, launcher(), space=space, sampler="tpe", budget="120s")
    fails = [row for row in result.rows if row.lost]
    assert fails
    assert all(threads(row.config) in (1, 2) for row in fails)
    assert threads(known(result.best)) not in (1, 2)
    assert known(result.sampling).went_on is not None
    assert not {row.trial for row in fails}.intersection(known(known(result.sampling).went_on))


@pytest.mark.parametrize("failed", [0, 20])
def test_a_check_says_that_a_recommendation_fails_more_by_now(tmp_path: Path, failed: int) -> None:
    searched(tmp_path, launcher(did=lambda config: {"calls": 24, "failed": 0}))

    def did(config: Config) -> dict[str, Any]:
        return {"calls": 24, "failed": failed if threads(config) == 1 else 0}

    today = launcher(did=did)
    result = tuner.check(
        tmp_path / "study", launcher=today, clock=today.clock, budget="60s", out=tmp_path / "today"
    )
    assert result.outcome == ("no-longer-holds" if failed else "holds")
    if failed:
        assert "fails 40 of 48 calls, the baseline none" in str(result)
