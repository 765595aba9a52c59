"""What a search leaves in its study for optuna-dashboard: notes, artifacts, attributes."""

import errno
import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import optuna
import pytest
from optuna.artifacts import FileSystemArtifactStore, get_all_artifact_meta
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState
from optuna_dashboard import get_note

from testing import made
from testing.fakes import FakeLauncher, threads_of
from testing.made import Telling
from tests.searching.tuning import Listening, failing, scaling
from tuner.api import SearchInterrupted
from tuner.study.folder import StudyFolder
from tuner.study.storage.artifacts import WholeFiles
from tuner.world.launcher import WorldOrder
from tuner.world.measurement import Failure, Measurement

pytestmark = [pytest.mark.publishes, pytest.mark.slow]

PNG = b"\x89PNG a figure"


def search(out: Path, launcher: FakeLauncher, **changes: Any) -> "Left":
    """Search 1 (the baseline), 2, 4 and 8 threads; what is left even if it is interrupted."""
    keys = {"space": {"num_worker_threads": [2, 4, 8]}, "baseline": {"num_worker_threads": 1},
            "budget": "40s", "max_blocks": 4, **changes}  # fmt: skip
    with suppress(SearchInterrupted):
        made.search(out, launcher, **keys)
    return Left(out)


class Left:
    """What a search has left in its folder, read with Optuna's own means."""

    def __init__(self, out: Path) -> None:
        self.folder = StudyFolder(out)
        self.storage: BaseStorage = optuna.storages.get_storage(f"sqlite:///{out}/study.db")
        (name,) = optuna.get_all_study_names(self.storage)
        self.study = optuna.load_study(study_name=name, storage=self.storage)
        self._files = FileSystemArtifactStore(self.folder.artifacts)

    def trial(self, threads: int) -> FrozenTrial:
        # A study that is gone on with has a new trial for each that had ended.
        found = [t for t in self.study.trials if t.params["num_worker_threads"] == threads]
        return found[-1]

    def note(self, threads: int) -> str:
        return str(get_note(Trial(self.study, self.trial(threads)._trial_id)))

    def artifacts(self, threads: int | None = None) -> dict[str, bytes]:
        """The contents of the artifacts of a trial, or of the study, by file name."""
        owner = self.study if threads is None else self.trial(threads)
        found = {}
        for meta in get_all_artifact_meta(owner, storage=self.storage):
            assert meta.filename not in found
            with self._files.open_reader(meta.artifact_id) as reader:
                found[meta.filename] = reader.read()
        return found

    def stored(self) -> set[str]:
        return {path.name for path in self.folder.artifacts.iterdir()}


def test_a_trace_that_failed_does_not_hide_a_later_failure(tmp_path: Path) -> None:
    launcher = Telling(
        step_ms=lambda s: 8.0 / threads_of(s),
        trace_fails=lambda s: "timed-out" if threads_of(s) == 8 else None,
    )
    search(tmp_path, launcher, max_blocks=8)
    launcher.fails = failing("crashed", 8)
    left = search(tmp_path, launcher, resume=True, budget="60s", max_blocks=12)
    # To Optuna a trial that goes on is another one.
    first, again = (
        {meta.filename for meta in get_all_artifact_meta(trial, storage=left.storage)}
        for trial in left.study.trials if trial.params["num_worker_threads"] == 8
    )  # fmt: skip
    assert first == {"trace-failure.json", "trace-worker1.stderr"}
    assert again >= {"failure.json", "worker1.stderr"}


def test_trials_have_their_traces_and_failures(tmp_path: Path) -> None:
    launcher = Telling(step_ms=scaling, sigma=0.02, fails=failing("crashed", 2))
    keys = {"space": {"num_worker_threads": [2, 3, 4, 8]}, "budget": "3m", "max_blocks": 12}
    left = search(tmp_path, launcher, **keys)
    for threads in (1, 3, 4, 8):
        trial, name = left.trial(threads), f"num_worker_threads={threads}"
        pruned = trial.state == TrialState.PRUNED
        assert trial.user_attrs["label"] == name
        assert trial.user_attrs["samples"] > 0
        assert trial.user_attrs["outcome"] == ("eliminated" if pruned else "completed")
        artifacts = left.artifacts(threads)
        assert set(artifacts) == {f"{name}.json.gz"}
        trace = (tmp_path / "traces" / f"{name}.json").read_bytes()
        assert gzip.decompress(artifacts[f"{name}.json.gz"]) == trace
    assert left.trial(3).state == TrialState.PRUNED
    (meta,) = get_all_artifact_meta(left.trial(4), storage=left.storage)
    # A browser must hand over the file as it is, not what it unpacks to.
    assert (meta.mimetype, meta.encoding) == ("application/gzip", "identity")
    failed = left.trial(2)
    assert failed.state == TrialState.FAIL
    assert failed.user_attrs["outcome"] == failed.user_attrs["failure"] == "crashed"
    assert failed.user_attrs["failure_reason"] == "worker1 failed first"
    printed = b"in num_worker_threads=2-first"
    assert left.artifacts(2) == {"failure.json": b"{}", "worker1.stderr": printed}
    assert "Failed, crashed: worker1 failed first" in left.note(2)


def test_the_study_has_names_then_the_verdict_and_the_files_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: dict[int, str] = {}

    class Looking(FakeLauncher):
        def run(self, order: WorldOrder) -> Measurement | Failure:
            if len(self.orders) == 3:
                left = Left(tmp_path)
                notes.update({threads: left.note(threads) for threads in (1, 2, 4, 8)})
                notes[0] = get_note(left.study)
            return super().run(order)

    def draw(answer: object) -> None:
        folder = StudyFolder(tmp_path)
        folder.figures.mkdir()
        for name in ("step_time.png", "mine.png", "step_time.svg"):
            (folder.figures / name).write_bytes(PNG)
        folder.manifest.add(folder.figures / "step_time.png")
        folder.report.write_text("<html>")

    monkeypatch.setattr("tuner.api.write_study_report", draw)
    left = search(tmp_path, Looking(step_ms=scaling))
    assert notes.pop(0).startswith("Being measured.")
    for threads, note in notes.items():
        assert note.startswith(f"## num_worker_threads={threads}\n\nBeing measured.")
    assert get_note(left.study).startswith("**Use num_worker_threads=")
    artifacts = left.artifacts()
    assert set(artifacts) == {"recommended.json", "trials.csv", "step_time.png", "report.html"}
    assert artifacts["step_time.png"] == PNG
    assert artifacts["trials.csv"] == (tmp_path / "trials.csv").read_bytes()
    assert json.loads(artifacts["recommended.json"])["study"] == "udf"


def test_an_interrupted_search_tells_what_it_knows_a_resumed_one_the_rest(tmp_path: Path) -> None:
    # Studies beside it would say what is measured first.
    out = tmp_path / "study"
    before = search(out, Telling(step_ms=scaling, interrupt_tracing=2))
    assert "Not finished" in get_note(before.study)
    assert "\n\nopen: no verdict yet\n\n" in before.note(4)
    assert set(before.artifacts()) == {"trials.csv"}
    stored, of_four = before.stored(), before.artifacts(4)
    # Killed between the two writes of an upload: the artifact is listed, but its file is not there.
    (four,) = get_all_artifact_meta(before.trial(4), storage=before.storage)
    (out / "artifacts" / four.artifact_id).unlink()
    # Deleted by somebody in the dashboard, which leaves a null.
    (one,) = get_all_artifact_meta(before.trial(1), storage=before.storage)
    (out / "artifacts" / one.artifact_id).unlink()
    key, trial_id = f"artifacts:{one.artifact_id}", before.trial(1)._trial_id
    before.storage.set_trial_system_attr(trial_id, key, json.dumps(None))

    after = search(out, Telling(step_ms=scaling), resume=True)
    assert "Not finished" not in get_note(after.study)
    assert "\n\nopen: no verdict yet\n\n" not in after.note(4)
    assert after.artifacts()["trials.csv"] == (out / "trials.csv").read_bytes()
    assert set(after.artifacts()) == {"trials.csv", "recommended.json"}
    assert after.artifacts(4) == of_four
    attributes = after.storage.get_trial_system_attrs(trial_id)
    names = [json.loads(value) for key, value in attributes.items() if key.startswith("artifacts:")]
    assert {name and name["filename"] for name in names} == {None, "num_worker_threads=1.json.gz"}
    # Nothing is stored twice. There are new ones of a recommendation, of the traces of those that
    # are not contenders, and of trial 1.
    kept = stored - {one.artifact_id}
    assert kept < after.stored()
    assert len(after.stored()) == len(kept) + 4

    again = search(out, Telling(), resume=True)
    assert again.stored() == after.stored()
    assert get_note(again.study) == get_note(after.study)


def test_an_artifact_that_cannot_be_written_costs_the_artifact_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, whole = Listening(), WholeFiles.write
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(WholeFiles, "write", full)
    launcher = Telling(step_ms=scaling, fails=failing("crashed", 2), interrupt_after=12)
    left = search(tmp_path, launcher, observer=heard)
    assert [text for text in heard.told if "dashboard" in text] == [
        "the dashboard will lack files: num_worker_threads=1.json.gz cannot be written to "
        f"{left.folder.artifacts}: No space left on device"
    ]
    # Nothing is listed that is not there.
    assert [left.artifacts(threads) for threads in (None, 1, 2, 4, 8)] == [{}] * 5
    assert "\n\nopen: no verdict yet\n\n" in left.note(8)

    monkeypatch.setattr(WholeFiles, "write", whole)
    launcher = Telling(step_ms=scaling, fails=failing("crashed", 2))
    after = search(tmp_path, launcher, observer=heard, resume=True)
    assert set(after.artifacts(4)) == {"num_worker_threads=4.json.gz"}
    assert set(after.artifacts()) == {"trials.csv", "recommended.json"}
    assert not any("could not be written" in text for text in heard.told)


def test_no_artifact_is_ever_there_in_part(tmp_path: Path) -> None:
    breaking = Mock(**{"read.side_effect": OSError("the disk is gone")})
    with pytest.raises(OSError, match="the disk is gone"):
        WholeFiles(StudyFolder(tmp_path)).write("0-1", breaking)
    assert list((tmp_path / "artifacts").iterdir()) == []
