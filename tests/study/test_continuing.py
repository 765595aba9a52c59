"""The command that continues a study."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.present.results import study_plan, study_result
from tuner.study.answer import StudyAnswer
from tuner.study.continuing import resume_command

USUAL = "python -m tuner.search --resume --study udf"


def undecided(**changes: Any) -> StudyAnswer:
    answer = study_result(study_plan(), verdict="undecided", best=None, **changes)
    return replace(answer, resume_budget_s=90)


def test_a_finished_study_gets_a_larger_budget() -> None:
    assert resume_command(undecided()) == f"{USUAL} --budget 90s"


def test_an_interrupted_study_has_its_budget() -> None:
    assert resume_command(undecided(interrupted=True)) == USUAL


def test_what_is_not_where_it_usually_is_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = undecided(folder=tmp_path / "a folder", storage="postgresql://me:***@host/db")
    assert shlex.split(resume_command(answer)) == [
        *USUAL.split(), "--out", "a folder", "--storage", "postgresql://me:***@host/db",
        "--budget", "90s",
    ]  # fmt: skip


@pytest.mark.parametrize(("most", "flags"), [(12, " --max-blocks 24"), (13, "")])
def test_a_study_that_its_blocks_ended_gets_more_of_them(most: int, flags: str) -> None:
    answer = undecided()
    assert answer.blocks == 12
    measuring = answer.plan.measuring.model_copy(update={"max_blocks": most})
    plan = answer.plan.model_copy(update={"measuring": measuring})
    assert resume_command(replace(answer, plan=plan)) == f"{USUAL} --budget 90s{flags}"
