"""The report command: a study's page, several studies in one, and what is refused."""

from pathlib import Path

import pytest

from testing.cheap_studies import *  # noqa: F403 - fixtures, for the studies of this file
from tests.commands.running import searched
from tuner.present.figures.step_time import step_time_figure
from tuner.report import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("here")
    with pytest.MonkeyPatch.context() as patch, cheaply():  # noqa: F405
        patch.chdir(folder)
        searched("monday")
        searched("tuesday", options={"size": 400})
    return folder


@pytest.fixture(autouse=True)
def here(studies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(studies)
    # All figures take most of the time.
    monkeypatch.setattr(
        "tuner.present.figures.study_figures", lambda answer, traces: [step_time_figure(answer)]
    )


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
    assert html.count("<figure ") == len(list(Path("comparison_figures").glob("*.png"))) == 2


def test_what_cannot_be_written_or_found_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["monday", "mondey"], "there is no study 'mondey'; did you mean monday?"),
        (["monday", "--output", "/dev/null/page.html"], "cannot write /dev/null"),
    ):
        assert main(arguments) == 2
        out, err = capsys.readouterr()
        assert err.startswith(f"rpc-tuner: {message}")
        assert out == ""
