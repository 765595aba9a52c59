"""A study is resumed by its name, or by the command that its answer gives."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from testing.cheap_studies import cheaply
from testing.known import known
from testing.made import search
from testing.results import study_plan, study_result
from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft
from tuner.study.answer import StudyAnswer
from tuner.study.resuming import asked_or_resumed_draft
from tuner.study.search_commands import place_keys, resume_command
from tuner.study.stored import find_study


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `studies/udf`, in an empty folder, of a search with options of its own."""
    folder = tmp_path_factory.mktemp("here") / "studies" / "udf"
    with cheaply():
        search(folder, max_blocks=3, options={"size": 7}, isolation=False)
    return folder


@pytest.fixture(autouse=True)
def here(studied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(studied.parents[1])


def resumed(**changes: Any) -> PlanDraft:
    return asked_or_resumed_draft(changes, resume=True)


@pytest.mark.parametrize("named", [{"name": "udf"}, {"out": "studies/udf"}])
def test_the_study_says_what_it_tunes(named: dict[str, str], studied: Path) -> None:
    draft = resumed(**named, budget="5m", maximize=False, storage=None, options={"calls": 9})
    assert (draft.problems, draft.name, draft.workload) == ((), "udf", "udf")
    assert (draft.options["size"], draft.options["calls"]) == (7, 9)
    assert (draft.measuring.budget_s, draft.measuring.max_blocks) == (300, 3)
    assert not draft.launching.isolation
    assert known(draft.out).absolute() == studied


def test_a_study_may_be_known_by_the_name_of_its_folder(tmp_path: Path) -> None:
    search(Path("studies/foo"), name="bar")
    draft = resumed(name="foo")
    assert (draft.name, draft.out) == ("bar", Path("studies/foo"))


def test_a_study_in_a_storage_elsewhere_is_known_by_its_name_or_its_folder(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/all.db"
    search(tmp_path / "its files", name="mine", storage=url)
    for named in ({"name": "mine"}, {}):
        draft = resumed(**named, out=str(tmp_path / "its files"), storage=url)
        assert (draft.name, draft.storage, draft.out) == ("mine", url, tmp_path / "its files")
    with pytest.raises(UsageError, match="name the study to resume"):
        resumed(out="nothing here", storage=url)
    answer = find_study("mine", storage=url, out=tmp_path / "its files")
    assert place_keys(answer)["storage"] == url


def test_a_study_that_was_not_created_completely_needs_its_whole_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/half.db"
    optuna.create_study(storage=url, study_name="half").set_user_attr("plan", {})
    with pytest.raises(UsageError, match="The whole command of its search, with --resume or"):
        resumed(name="half", storage=url)


def test_what_is_named_is_not_taken_from_a_study() -> None:
    draft = asked_or_resumed_draft({"workload": "light", "name": "udf"}, resume=True)
    assert draft.workload == "light"
    with pytest.raises(UsageError, match="name a workload, a plan or a program"):
        asked_or_resumed_draft({"name": "udf"}, resume=False)


USUAL = "rpc-tuner search --resume --study udf"


def undecided(**changes: Any) -> StudyAnswer:
    answer = study_result(study_plan(), verdict="undecided", best=None, **changes)
    return replace(answer, resume_budget_s=90)


def test_what_is_not_where_it_usually_is_is_named(tmp_path: Path) -> None:
    answer = undecided(folder=tmp_path / "a folder", storage="postgresql://me:***@host/db")
    where = ["--out", str(tmp_path / "a folder"), "--storage", "postgresql://me:***@host/db"]
    assert shlex.split(resume_command(answer)) == [*USUAL.split(), *where, "--budget", "90s"]


@pytest.mark.parametrize(("most", "flags"), [(12, " --max-blocks 24"), (13, "")])
def test_a_study_that_its_blocks_ended_gets_more_of_them(most: int, flags: str) -> None:
    answer = undecided()
    assert answer.blocks == 12
    measuring = answer.plan.measuring.model_copy(update={"max_blocks": most})
    plan = answer.plan.model_copy(update={"measuring": measuring})
    assert resume_command(replace(answer, plan=plan)) == f"{USUAL} --budget 90s{flags}"
