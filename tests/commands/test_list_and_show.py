"""What studies there are, and the answer of one of them again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from testing.cheap_studies import *  # noqa: F403 - fixtures, for every test of this file
from testing.fakes import FakeLauncher
from tests.commands.running import printed_by, searched
from tests.present.screen import printed
from tests.searching.tuning import failing, scaling
from tuner import export, search, show
from tuner import list as listing
from tuner.api import SearchInterrupted
from tuner.cpus import usable_cpus
from tuner.present.how_to_use import FORMS, exported
from tuner.present.study_files import kept_answer
from tuner.present.study_list import StudyLine, print_studies, studies_of_folder
from tuner.present.summary import print_summary
from tuner.study.file_lock import Holder, holder_of, locked_file
from tuner.study.folder import STUDIES, StudyFolder
from tuner.text import plural

pytestmark = pytest.mark.usefixtures("here")

FASTER = StudyFolder(STUDIES / "faster")


def interrupted(name: str) -> None:
    with pytest.raises(SearchInterrupted):
        searched(name, FakeLauncher(step_ms=scaling, interrupt_after=5))


def test_every_study_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    searched("faster")
    searched("broken", FakeLauncher(fails=failing("crashed", 1, 4)))
    interrupted("stopped")
    assert listing.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    words = {line.split()[0]: " ".join(line.split()) for line in lines if line.strip()}
    for study, said in (
        ("faster", "udf better: num_worker_threads=4 4x 20"), ("faster", "finished, "),
        ("faster", " of 30s"), ("broken", "udf nothing could run"), ("stopped", "udf none yet"),
        ("stopped", "interrupted, "), ("On", f"On {plural(usable_cpus(), 'logical CPU')}, "),
    ):  # fmt: skip
        assert said in words[study]
    assert listing.main([str(Path().absolute())]) == 0
    assert capsys.readouterr().out == "no studies\n"
    (here,) = studies_of_folder(FASTER.root).studies
    there = {**here, "study": "there", "environment": {**here["environment"], "cpu_count": 64}}
    wide = printed(print_studies, [here, there], width=200)
    assert wide.count(" 64 logical CPUs, ") == 1
    # Its folder has another name: several folders may have one study.
    assert "there in studies/faster" in wide
    narrow = printed(print_studies, [here, there], width=40).splitlines()
    assert len(narrow) == 4
    assert narrow[0].startswith("faster  better: num_worker_threads=4, 4")
    assert narrow[1].startswith("    udf; finished, ")


def test_where_the_baseline_is_kept_its_strongest_rival_is_told() -> None:
    searched("slower", FakeLauncher(step_ms=lambda config: 10.0 / scaling(config)))
    (slower,) = studies_of_folder(STUDIES).studies
    line, rival = StudyLine.of(slower), slower["challenger"]
    assert line.verdict == "keep-baseline: num_worker_threads=1"
    assert rival["config"] == {"*": {"num_worker_threads": 4}}
    assert line.speedup == "strongest rival 0.25x"
    unknown = {"estimate": None, "ci_low": None, "ci_high": None}
    unsure = StudyLine.of({**slower, "challenger": {**rival, "speedup": unknown}})
    assert unsure.speedup == "strongest rival too uncertain to say"
    least = StudyLine.of({**slower, "challenger": {**rival, "speedup": {**unknown, "ci_low": 2.5}}})
    assert least.speedup == "strongest rival at least 2.50x"


def test_a_document_for_programs(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    result = searched("faster")
    (STUDIES / "damaged").mkdir()
    (STUDIES / "damaged" / "study.db").write_text("no database")
    assert listing.main(["studies", "--json"]) == 0
    document = json.loads(capsysbinary.readouterr().out)
    (study,) = document["studies"]
    expected = {"study": "faster", "workload": "udf", "state": "finished", "verdict": "better",
                "budget_s": 30.0, "configurations": 2, "folder": "studies/faster"}  # fmt: skip
    assert study.items() >= expected.items()
    assert study["speedup"]["estimate"] == result.speedup.estimate  # type: ignore[union-attr]
    assert len(document["problems"]) == 1
    assert listing.main(["studies"]) == 0
    assert b"note: left out: " in capsysbinary.readouterr().err


def test_a_search_that_failed_before_its_first_world_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = StudyFolder(STUDIES / "main")
    folder.first_run.mkdir(parents=True)
    folder.manifest.begin("main")
    assert listing.main([]) == 0
    said = "studies/main: its search failed before its first world. See studies/main/failures/"
    assert said in capsys.readouterr().err
    assert search.main(["--resume", "--study", "main"]) == 2
    assert "failed before its first world, as studies/main/failures/" in capsys.readouterr().err
    # Of one that began later it tells nothing.
    folder.answer.touch()
    assert listing.main([]) == 0
    assert "first world" not in capsys.readouterr().err


def test_a_search_that_is_running_is_told_from_one_that_was_interrupted(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    interrupted("stopped")
    lock = STUDIES / "stopped" / "search.lock"
    with locked_file(lock, "busy", keep=lambda: True):
        assert listing.main(["--json"]) == 0
        assert holder_of(lock) is not None
    (study,) = json.loads(capsysbinary.readouterr().out)["studies"]
    assert study["state"] == "running"
    # A search that was killed leaves its name in the file.
    lock.write_text(str(Holder(2**22 + 1, Holder.here().host)))
    assert holder_of(lock) is holder_of(lock.with_name("absent.lock")) is None
    assert show.main(["stopped"]) == 0
    assert b"Not finished: no verdict after " in capsysbinary.readouterr().out
    assert show.main(["stopt"]) == 2
    assert b"there is no study 'stopt'; did you mean stopped?" in capsysbinary.readouterr().err


@pytest.mark.parametrize(
    "command", [["show", "faster"], ["list"], *(["export", "faster", "--format", f] for f in FORMS)]
)
def test_a_kept_answer_is_told_without_the_storage(command: list[str]) -> None:
    searched("faster")
    FASTER.lock.unlink(missing_ok=True)
    *told, imported = printed_by(f"assert tuner.__main__.main({command}) == 0").stdout.splitlines()
    assert "num_worker_threads" in "\n".join(told)
    assert imported == "[]"


def test_a_kept_answer_says_what_the_storage_says(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = searched("faster")

    def said() -> list[bytes]:
        found = []
        for command, arguments in ((show, ["faster"]), (show, ["faster", "--json"]), (listing, [])):
            assert command.main(arguments) == 0
            found.append(capsysbinary.readouterr().out)
        return found

    assert kept_answer(FASTER) is not None
    told = said()
    assert told[0].decode() == printed(print_summary, result)
    assert json.loads(told[1]) == result.to_json()
    for form in FORMS:
        assert export.main(["faster", "--format", form]) == 0
        assert capsysbinary.readouterr().out.decode() == exported(result, form)
    for content in ("", "[]", '{"format": 99}', '{"format": 1}', "{" * 10_000):
        FASTER.answer.write_text(content)
        assert said() == told


def test_how_a_study_would_be_resumed_is_told_without_running_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    searched("faster")
    interrupted("stopped")
    for study, said in (
        ("faster", "There is nothing to go on with."),
        ("stopped", "To go on: rpc-tuner search --resume --study stopped"),
    ):
        assert search.main(["--dry-run", "--resume", "--study", study]) == 0
        assert capsys.readouterr().out.splitlines()[1] == said
    assert search.main(["--dry-run", "--resume", "--study", "stopped", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["command"] == "rpc-tuner search --resume --study stopped"


def test_a_session_removes_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    searched("faster")
    kept = kept_answer(FASTER)
    assert kept is not None
    assert kept.listed["state"] == "finished"
    monkeypatch.setattr("tuner.api.write_answer", lambda answer: None)  # as if it were killed
    searched("faster", budget="60s", resume=True)
    assert kept_answer(FASTER) is None


@pytest.mark.parametrize("name", ["elsewhere", "with a space"])
def test_a_folder_that_was_moved_is_told_with_its_own_paths(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = searched("faster")
    STUDIES.rename(name)
    moved = StudyFolder(Path(name) / "faster")
    kept = kept_answer(moved)
    assert kept is not None
    assert (kept.summary is None) == (" " in name)
    for folder in (Path(), Path(name), Path("/")):
        moved = StudyFolder(moved.root.absolute())
        monkeypatch.chdir(folder)
        for flags in ([], ["--all"]):
            assert show.main([str(moved.root), *flags]) == 0
            told = capsys.readouterr().out
            assert told == printed(print_summary, replace(result, files=moved), whole=bool(flags))
            assert str(STUDIES / "faster") not in told


def test_of_several_studies_in_one_database_the_file_knows_one(
    capsysbinary: pytest.CaptureFixture[bytes], here: Path
) -> None:
    searched("faster")
    url = f"sqlite:///{here}/{FASTER.database}"
    searched("second", storage=url)
    assert kept_answer(FASTER) is None
    for arguments in ([], ["studies/faster"], ["--storage", url]):
        assert listing.main([*arguments, "--json"]) == 0
        studies = json.loads(capsysbinary.readouterr().out)["studies"]
        assert [study["study"] for study in studies] == ["faster", "second"]
