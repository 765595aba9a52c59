"""Earlier studies decide in which order a new one measures, and nothing else."""

from pathlib import Path
from typing import Any

import optuna
import pytest

from testing.fakes import UDF, threads_of
from tests.fake_program import OWN, RANKS
from tests.searching.tuning import Tune, failing
from tuner import machine
from tuner.plan.program_spec import ProgramSpec
from tuner.study.storage import prior


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def order_in(name: str, *threads: int, **changes: Any) -> list[int]:
    """The threads of the first worlds of a study, in the order in which they ran."""
    tune = Tune(Path("studies") / name)
    asked = {"space": {"num_worker_threads": threads}, "max_blocks": 8, "name": name, **changes}
    result = tune(step_ms=lambda config: 1.0 + threads_of(config) / 4, **asked)
    orders = tune.launcher.orders
    # What is known of earlier studies is no evidence.
    timed = sum(order.config == result.baseline for order in orders if order.steps is not None)
    assert result.by_trial[0].samples == timed or changes.get("resume")
    return [threads_of(order.config) for order in orders if order.steps is None]


def test_what_did_well_is_first_and_what_failed_is_last() -> None:
    order_in("earlier", 1, 2, 8, 32, fails=failing("crashed", 1))
    baseline, *others = order_in("later", 1, 32, 4, 8, 2)
    assert baseline == 16
    # Of 2 and 8 threads the one in the confirmation has other blocks, which nobody compares here.
    assert set(others[:2]) == {2, 8}
    assert others[2:] == [4, 32, 1]


@pytest.mark.parametrize("why", ["objective", "storage", "machine", "unknown", "late"])
def test_studies_of_something_else_have_no_say(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = {"objective": "cpu_ms_per_step", "storage": f"sqlite:///{tmp_path}/elsewhere.db"}
    with monkeypatch.context() as patch:
        if why == "machine":
            patch.setattr(machine, "usable_cpus", lambda: 77)
        order_in("earlier", 8, 2, **{why: elsewhere[why]} if why in elsewhere else {})
    if why == "unknown":
        storage = f"sqlite:///{tmp_path}/studies/earlier/study.db"
        optuna.load_study(study_name="earlier", storage=storage).set_user_attr(prior.IDENTITY, None)
    if why == "late":
        monkeypatch.setattr(prior, "MOST_READ_S", -1.0)
    assert order_in("later", 8, 2) == [16, 8, 2]


@pytest.mark.parametrize("storage", [None, "sqlite:///shared.db"])
def test_the_study_that_is_replaced_is_an_earlier_one_too(storage: str | None) -> None:
    for order in ([16, 8, 2], [16, 2, 8]):
        assert order_in("same", 8, 2, storage=storage, overwrite=True) == order


def test_a_study_that_was_continued_has_its_say() -> None:
    asked: dict[str, Any] = {"sigma": 0.3, "max_blocks": None}
    order_in("earlier", 8, 2, budget="20s", **asked)
    order_in("earlier", 8, 2, budget="40s", **asked, resume=True)
    assert order_in("later", 8, 2) == [16, 2, 8]


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
        (("./run",), "run"), (("bash", "-c", "python main.py"), None), (("make", "train"), None),
        (("python", "pkg"), "pkg/__main__.py"), (("python", "-m", "pkg"), "pkg/__main__.py"),
        (("torchrun", "--script=main.py"), "main.py"), (("echo", "\0", "x" * 5000), None),
        (("python", "main.py", "--config", "small.yaml"), "small.yaml"),
    ],
)  # fmt: skip
def test_a_program_is_of_its_folder_and_of_every_file_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], file: str | None
) -> None:
    program = ProgramSpec(
        commands=(command,), ranks=RANKS, own=OWN, calls=(1,), shuts_down=True, own_network=True
    )

    def known(folder: str, pause_ms: int = 5) -> str:
        (tmp_path / folder / "pkg").mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        if file is not None:
            Path(file).write_text(f"PAUSE_MS = {pause_ms}")
        return prior.identity_of(program)

    assert known("one") == known("one") != known("two")
    assert (known("one", 6) == known("one")) == (file is None)
