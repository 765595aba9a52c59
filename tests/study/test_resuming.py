"""A study is gone on with by its name, and named by a line for a shell."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cheap_studies import *  # noqa: F403 - fixtures, for the search of this file
from tests.fakes import FakeLauncher
from tests.searching.tuning import tuning_in
from tuner import search
from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft
from tuner.study.folder import StudyFolder
from tuner.study.resuming import draft_of, resume_command


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `studies/udf`, in an empty folder, of a search with options of its own."""
    folder = tmp_path_factory.mktemp("here") / "studies" / "udf"
    with cheaply():  # noqa: F405
        launcher = FakeLauncher()
        tuning_in(folder)(launcher, options={"size": 7}, max_blocks=3, isolation=False)
    return folder


@pytest.fixture(autouse=True)
def here(studied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(studied.parents[1])


def resumed(**changes: Any) -> PlanDraft:
    return draft_of(None, None, (), None, changes, resume=True)


@pytest.mark.parametrize("named", [{"name": "udf"}, {"out": "studies/udf"}])
def test_the_study_says_what_it_tunes(named: dict[str, str], studied: Path) -> None:
    draft = resumed(**named, budget="5m", maximize=False, storage=None)
    assert draft.problems == ()
    assert (draft.name, draft.workload) == ("udf", "udf")
    assert draft.options["size"] == 7
    assert draft.measuring.budget_s == 300
    assert draft.measuring.max_blocks == 3
    assert not draft.launching.isolation
    assert draft.out is not None
    assert draft.out.absolute() == studied


def test_what_is_named_is_not_taken_from_a_study() -> None:
    draft = draft_of("light", None, (), None, {"name": "udf"}, resume=True)
    assert draft.workload == "light"
    with pytest.raises(UsageError, match="name a workload, a plan or a program"):
        draft_of(None, None, (), None, {"name": "udf"}, resume=False)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "name the study to continue, or what it tunes: --resume --study NAME"),
        ({"name": "uff"}, "there is no study 'uff'; did you mean udf?"),
        ({"out": "elsewhere"}, "there is no study 'elsewhere'"),
        ({"name": "x", "out": "studies/udf"}, "there is no study 'x' in the folder studies/udf"),
    ],
)
def test_a_study_that_is_not_there_is_told(changes: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        resumed(**changes)


def test_a_mistake_is_told_before_anything_is_set_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert search.main(["--resume", "--study", "udf", "--budget", "soon"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("rpc-tuner: budget must be a duration such as 60s")
    assert told.count("\n") == 1


def test_the_line_names_what_is_not_as_usual(studied: Path, tmp_path: Path) -> None:
    usual = "python -m tuner.search --resume --study udf"
    assert resume_command("udf", StudyFolder(studied)) == usual
    assert resume_command("udf", StudyFolder(Path("studies/udf")), 90) == f"{usual} --budget 90s"
    elsewhere = StudyFolder(tmp_path / "a folder")
    assert shlex.split(resume_command("udf", elsewhere)) == [
        *usual.split(), "--out", str(elsewhere.root), "--storage", "URL",
    ]  # fmt: skip
