"""The flags of the commands."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.fuzzing import fuzz
from tests.fuzz.test_plans import PIECES, planned
from tuner import analyze, export, report, run, search, show
from tuner import list as listing
from tuner.plan.draft import plan_mapping
from tuner.plan.keys import PLAN_KEYS

VALUE = st.lists(st.sampled_from(PIECES), max_size=5).map("".join) | st.text(st.characters())
FLAGS = sorted(
    {
        *re.findall(r"--[a-z-]+", Path(search.__file__).read_text()),
        *(key.flag for key in PLAN_KEYS.values()),
        "--no-such-flag",
    }
)
TOKEN = st.sampled_from([flag for flag in FLAGS if flag != "--help"])
WORDS = st.lists(TOKEN | VALUE | st.sampled_from(["--", "-", "-x", "--=", "udf"]), max_size=8)
ENDS = (0, 1, 2, 3, 4, 130)


@pytest.fixture
def plans_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """A search that reads its plan and starts nothing; the plans that came so far."""
    made: list[Any] = []

    def plan(as_json: bool, **asked: Any) -> None:
        del as_json
        program, beside = asked.pop("program"), asked.pop("beside")
        plan, workload = asked.pop("plan"), asked.pop("workload")
        for other in ("show", "resume", "overwrite", "quiet", "log"):
            asked.pop(other, None)
        programs = None if program is None else [program, *beside]
        made.append(plan_mapping(plan, workload, {"programs": programs, **asked}))
        planned(made[-1])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(search, "_answer", plan)
    monkeypatch.setattr(search, "_forecast", plan)
    monkeypatch.setattr(search, "_list_workloads", lambda as_json: None)
    monkeypatch.setattr(search, "_check", lambda *arguments: 0)
    return made


def test_flags_of_a_search(plans_only: list[Any]) -> None:
    def check(words: list[str]) -> None:
        assert search.main(["--workload", "udf", *words]) in ENDS

    fuzz(WORDS, check, 120)
    assert plans_only


def test_words_of_the_other_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nothing_ran(*_: Any, **__: Any) -> Any:
        """What a command would run, and whether it is there, is not asked here."""
        report = SimpleNamespace(notes=lambda what: [], ranks=())
        return SimpleNamespace(report=report, unused=lambda chosen: [], exit_code=0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tuner.world.command.running.run_program", nothing_ran)
    commands = [show.main, listing.main, report.main, export.main, analyze.main, run.main]

    def check(drawn: tuple[Any, list[str]]) -> None:
        command, words = drawn
        assert command(words) in ENDS

    fuzz(st.tuples(st.sampled_from(commands), WORDS), check, 100)
