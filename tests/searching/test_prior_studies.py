"""Earlier studies decide in which order a new one measures, and nothing else."""

from pathlib import Path
from typing import Any

import optuna
import pytest

import tuner
from tests.fake_program import OWN, RANKS
from tests.fakes import UDF, FakeLauncher, threads_of
from tests.searching.tuning import failing
from tuner import machine
from tuner.plan.config import Config
from tuner.plan.program_spec import ProgramSpec
from tuner.study.answer import StudyAnswer
from tuner.study.storage import prior


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def fewer_is_faster(config: Config) -> float:
    return 1.0 + threads_of(config) / 4


def searched(name: str, threads: list[int], launcher: FakeLauncher, **changes: Any) -> StudyAnswer:
    return tuner.tune(
        "udf", launcher=launcher, clock=launcher.clock, name=name, max_blocks=8,
        space={"num_worker_threads": threads}, **changes,
    )  # fmt: skip


def calibrated(launcher: FakeLauncher) -> list[int]:
    """The threads of the calibrations, in the order in which they ran."""
    return [threads_of(order.config) for order in launcher.orders if order.steps is None]


def test_what_did_well_is_first_and_what_failed_is_last_and_it_is_no_evidence() -> None:
    fails = failing("crashed", 1)
    searched("earlier", [1, 2, 8, 32], FakeLauncher(step_ms=fewer_is_faster, fails=fails))
    launcher = FakeLauncher(step_ms=fewer_is_faster)
    later = searched("later", [1, 32, 4, 8, 2], launcher)
    baseline, *others = calibrated(launcher)
    assert baseline == 16
    # Of 2 and 8 threads the one in the confirmation has other blocks, which nobody compares here.
    assert set(others[:2]) == {2, 8}
    assert others[2:] == [4, 32, 1]
    timed = sum(order.config == later.baseline for order in launcher.orders if order.steps)
    assert later.by_trial[0].samples == timed


@pytest.mark.parametrize("why", ["objective", "storage", "machine", "unknown", "late"])
def test_studies_of_something_else_have_no_say(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one that does not say what it is of, nor what is not read in time."""
    elsewhere = {"objective": "cpu_ms_per_step", "storage": f"sqlite:///{tmp_path}/elsewhere.db"}
    changes = {why: elsewhere[why]} if why in elsewhere else {}
    with monkeypatch.context() as patch:
        if why == "machine":
            patch.setattr(machine, "usable_cpus", lambda: 77)
        searched("earlier", [8, 2], FakeLauncher(step_ms=fewer_is_faster), **changes)
    if why == "unknown":
        storage = optuna.storages.get_storage(f"sqlite:///{tmp_path}/studies/earlier/study.db")
        storage.set_study_user_attr(storage.get_study_id_from_name("earlier"), prior.IDENTITY, None)
    if why == "late":
        monkeypatch.setattr(prior, "MOST_READ_S", -1.0)
    launcher = FakeLauncher(step_ms=fewer_is_faster)
    searched("later", [8, 2], launcher)
    assert calibrated(launcher) == [16, 8, 2]


@pytest.mark.parametrize("stored", [False, True])
def test_the_study_that_is_replaced_is_an_earlier_one_too(tmp_path: Path, stored: bool) -> None:
    storage = f"sqlite:///{tmp_path}/shared.db" if stored else None
    for order in ([16, 8, 2], [16, 2, 8]):
        launcher = FakeLauncher(step_ms=fewer_is_faster)
        searched("same", [8, 2], launcher, storage=storage, overwrite=True)
        assert calibrated(launcher) == order


def test_what_a_subject_is_follows_from_the_files_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(reference: str, folder: str, pause_ms: int = 5) -> str:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "main.py").write_text(f"PAUSE_MS = {pause_ms}")
        monkeypatch.chdir(tmp_path / folder)
        return prior.identity_of(UDF.model_copy(update={"reference": reference}))

    assert known("udf", "one") == known("udf", "two")
    for reference in ("main.py:Mine", "main:Mine"):
        seen = {known(reference, "one"), known(reference, "two"), known(reference, "one", 7)}
        assert len(seen) == 3
    assert known("main:Mine", "one") != known("other:Mine", "one")


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("./run",), "run"),
        (("bash", "-c", "python main.py"), None),
        (("python", "pkg"), "pkg/__main__.py"),
        (("python", "-m", "pkg"), "pkg/__main__.py"),
        (("make", "train"), None),
        (("torchrun", "--script=main.py"), "main.py"),
        (("python", "main.py", "--config", "small.yaml"), "small.yaml"),
        (("echo", "\0", "x" * 5000), None),
    ],
)
def test_a_program_is_of_its_folder_and_of_every_file_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], file: str | None
) -> None:
    program = ProgramSpec(
        commands=(command,), ranks=RANKS, own=OWN, calls=(1,), shuts_down=True, own_network=True
    )

    def known(folder: str) -> str:
        (tmp_path / folder / "pkg").mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        if file is not None and not Path(file).exists():
            Path(file).write_text("PAUSE_MS = 5")
        return prior.identity_of(program)

    before = known("one")
    assert known("two") != before
    assert known("one") == before
    if file is not None:
        Path(file).write_text("PAUSE_MS = 6")
        assert known("one") != before


def test_a_study_that_was_continued_has_its_say() -> None:
    for budget in ("20s", "40s"):
        launcher = FakeLauncher(step_ms=fewer_is_faster, sigma=0.3)
        tuner.tune(
            "udf", launcher=launcher, clock=launcher.clock, name="earlier", budget=budget,
            space={"num_worker_threads": [8, 2]}, resume=budget == "40s",
        )  # fmt: skip
    launcher = FakeLauncher(step_ms=fewer_is_faster)
    searched("later", [8, 2], launcher)
    assert calibrated(launcher) == [16, 2, 8]
