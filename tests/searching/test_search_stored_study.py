"""Whole studies on the fake launcher: what they leave, and whose folder it is."""

import itertools
from pathlib import Path

import pytest

from tests.fakes import UDF, FakeLauncher
from tests.searching.tuning import Tune, scaling, study
from tuner.errors import UsageError
from tuner.study.folder import StudyFolder


def test_the_study_is_an_optuna_study(tune: Tune, tmp_path: Path) -> None:
    result = tune(FakeLauncher(step_ms=scaling, sigma=0.05), baseline={"num_worker_threads": 1})
    found = study(tmp_path)
    assert found.user_attrs["environment"]["torch"] == result.environment.torch
    assert found.user_attrs["plan"]["workload"]["options"] == UDF.options
    assert found.trials[0].params == {"num_worker_threads": 1}
    assert found.trials[0].user_attrs["config"] == {"*": {"num_worker_threads": 1}}
    assert len(found.trials[0].intermediate_values) == result.blocks
    assert [t.state.name for t in found.trials].count("RUNNING") == 0
    states = {t.user_attrs["label"]: t.state.name for t in found.trials}
    assert states[str(result.best)] == "COMPLETE"
    assert found.best_trial.user_attrs["label"] == str(result.best)
    best = found.best_trial.number
    assert found.user_attrs["answer"] == f"trial {best}: {result.best}"


def test_an_eliminated_trial_has_the_value_that_compares(tune: Tune, tmp_path: Path) -> None:
    """On a machine that gets slower, what leaves early was measured in fast blocks alone."""
    worlds = itertools.count()
    result = tune(
        FakeLauncher(step_ms=lambda config: scaling(config) * 1.01 ** next(worlds), sigma=0.02),
        baseline={"num_worker_threads": 1},
    )
    trials = study(tmp_path).trials
    assert any(trial.state.name == "PRUNED" for trial in trials)
    rows = {row.label: row for row in result.rows}
    baseline_ms = result.by_trial[0].value
    for trial in trials:
        paired = rows[trial.user_attrs["label"]].against_baseline
        assert paired is not None
        assert trial.value == pytest.approx(baseline_ms / paired.ratio.estimate)


def test_a_study_is_not_overwritten_unasked(tune: Tune) -> None:
    first = tune(FakeLauncher(step_ms=scaling))
    refused = FakeLauncher()
    with pytest.raises(UsageError, match="--resume continues it"):
        tune(refused)
    assert refused.orders == []
    second = tune(FakeLauncher(step_ms=lambda config: 1.0), overwrite=True)
    assert second.rows[0].value == pytest.approx(1.0)
    assert first.rows[0].value == pytest.approx(2.0)


def test_an_answer_that_no_longer_holds_is_removed(tune: Tune, tmp_path: Path) -> None:
    tune(FakeLauncher())
    tune(FakeLauncher(fails=lambda config, world: "crashed"), overwrite=True)
    assert not (tmp_path / "study" / "recommended.json").exists()


def test_two_studies_do_not_share_a_folder(tune: Tune) -> None:
    tune(FakeLauncher(), name="one")
    with pytest.raises(UsageError, match=r"holds the study one; give two another --out"):
        tune(FakeLauncher(), name="two")


def test_two_studies_of_one_storage_do_not_share_a_folder(tune: Tune, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/shared.db?timeout=20"
    tune(FakeLauncher(), name="one", storage=storage)
    with pytest.raises(UsageError, match="holds the study one"):
        tune(FakeLauncher(), name="two", storage=storage)
    tune(FakeLauncher(), name="two", storage=storage, out=str(tmp_path / "two"))
    again = FakeLauncher()
    tune(again, name="one", storage=storage, resume=True)
    assert again.orders == []


def test_a_second_search_in_the_folder_is_refused(tune: Tune, tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path / "study")
    with folder.locked(), pytest.raises(UsageError, match="another search is running in"):
        tune(FakeLauncher())


def test_a_study_that_is_being_measured_is_not_overwritten(tune: Tune, tmp_path: Path) -> None:
    expected = tune(FakeLauncher(step_ms=scaling, sigma=0.05))
    folder = StudyFolder(tmp_path / "study")
    with folder.locked(), pytest.raises(UsageError, match="another search is running in"):
        tune(FakeLauncher(), overwrite=True)
    assert tune(FakeLauncher(), resume=True).rows == expected.rows
    assert folder.recommended.exists()


def test_a_password_is_not_shown(tune: Tune) -> None:
    with pytest.raises(UsageError) as raised:
        tune(FakeLauncher(), storage="postgresql+nodriver://me:secret@nowhere/db")
    assert "secret" not in str(raised.value)
    assert "me:***@nowhere" in str(raised.value)
