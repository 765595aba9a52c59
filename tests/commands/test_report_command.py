"""The report command: a study's page, several studies in one, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from tests.cheap_studies import (
    empty_databases_are_copied,
    migrations_are_read_once,
    no_waiting_for_the_disk,
)
from tests.fakes import FakeLauncher, threads_of
from tuner.api import tune
from tuner.present.figures.step_time import step_time_figure
from tuner.report import main

pytestmark = pytest.mark.slow

# Fixtures for the studies here.
__all__ = ["empty_databases_are_copied", "migrations_are_read_once", "no_waiting_for_the_disk"]


def search(name: str, **changes: Any) -> None:
    launcher = FakeLauncher(step_ms=lambda s: 8.0 / min(4, threads_of(s)), sigma=0.02)
    keys: dict[str, Any] = {
        "space": {"num_worker_threads": [1, 2, 4]},
        "baseline": {"num_worker_threads": 1},
        "budget": "20s",
        "max_blocks": 8,
        **changes,
    }
    tune("udf", launcher=launcher, clock=launcher.clock, name=name, **keys)


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # Drawing takes most of a search's time, and no test looks at these reports.
        patch.setattr("tuner.api.write_study_report", lambda answer: None)
        search("monday")
        search("tuesday", options={"size": 400})
        search("by-cpu", objective="cpu_ms_per_step")
    return folder


@pytest.fixture(autouse=True)
def _here(studies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(studies)


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of them take most of the time.
    monkeypatch.setattr(
        "tuner.present.figures.study_figures", lambda answer, traces: [step_time_figure(answer)]
    )


@pytest.mark.usefixtures("one_figure")
def test_a_report_is_written_again_in_its_place_or_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = Path("studies/tuesday/report.html")
    assert not page.exists()
    assert main(["tuesday"]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "Use num_worker_threads=4" in page.read_text()
    assert main(["studies/tuesday", "--output", "away/page.html"]) == 0
    assert capsys.readouterr().out == "away/page.html\n"
    assert Path("away/page.html").read_text() == page.read_text()
    assert Path("away/page_figures/step_time.png").exists()


def test_studies_are_compared_on_one_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["monday", "tuesday"]) == 0
    assert capsys.readouterr().out == "comparison.html\n"
    html = Path("comparison.html").read_text()
    assert "calls=4, size=400, rounds=10" in html
    assert html.count("<figure ") == 2
    assert len(list(Path("comparison_figures").glob("*.png"))) == 2


@pytest.mark.usefixtures("one_figure")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("monday", "by-cpu"),
            "these studies cannot be compared because they were measured differently: "
            "objective: step_ms (monday), cpu_ms_per_step (by-cpu)",
        ),
        (("mondey",), "there is no study 'mondey'; did you mean monday?"),
        (("monday", "--output", "/dev/null/page.html"), "cannot write /dev/null"),
    ],
)
def test_bad_input_is_exit_code_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err
