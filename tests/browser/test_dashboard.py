"""The dashboard as a person uses it: by clicks, in a browser, from a study to a trial's trace."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import tuner
from testing.cheap_studies import cheaply
from testing.fakes import FakeLauncher, threads_of
from testing.serving import dashboard
from tests.commands.running import searched
from tests.searching.tuning import cpus, failing
from tuner.present.wording import verdict_sentence
from tuner.text import three_digits

pytestmark = [pytest.mark.browser, pytest.mark.thorough]


def search(folder: Path, name: str) -> None:
    """16 threads are the baseline, and trial 0; 1, 2, 4 and 8 are trials 1 to 4."""
    launcher = FakeLauncher(
        step_ms=lambda config: 16.0 / min(8, threads_of(config)), sigma=0.01, cpu_cores=cpus,
        fails=failing("crashed", 2),
    )  # fmt: skip
    space, baseline = {"num_worker_threads": [1, 2, 4, 8]}, {"num_worker_threads": 16}
    out = str(folder / name)
    searched(name, launcher, out=out, space=space, baseline=baseline, budget="60s")


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the studies `monday` and `tuesday`."""
    folder = tmp_path_factory.mktemp("studies")
    search(folder, "monday")
    # Drawing takes most of a search's time, and no test looks at this study's figures.
    with cheaply(publishes=True, reads_traces=True):
        search(folder, "tuesday")
    return folder


@pytest.fixture(scope="module")
def monday(studies: Path) -> Iterator[str]:
    """The address of a dashboard over the study `monday`."""
    with dashboard(str(studies / "monday")) as address:
        yield address


def menu(page: Page, entry: str) -> Locator:
    return page.locator(f"a[href$='/{entry}']").first


def downloaded(page: Page, name: str) -> bytes:
    """The artifact of this name, by a click on its card."""
    link = page.locator(f"a[download='{name}']")
    expect(link).to_have_count(1)
    with page.expect_download() as download:
        link.click()
    assert download.value.suggested_filename == name
    return download.value.path().read_bytes()


def test_from_the_verdict_to_the_trace_of_the_best(page: Page, studies: Path, monday: str) -> None:
    answer = tuner.load_study(studies / "monday")
    assert str(answer.best) == "num_worker_threads=8"
    page.goto(monday)
    expect(page.get_by_text("Study Artifacts")).to_be_visible()
    # A figure is seen, not only listed.
    figure = page.get_by_role("img", name="step_time.png")
    expect(figure).to_be_visible()
    figure.evaluate("image => image.decode()")
    assert figure.evaluate("image => image.naturalWidth") > 0
    trials = (studies / "monday" / "trials.csv").read_bytes()
    assert downloaded(page, "trials.csv") == trials

    menu(page, "note").click()
    expect(page.get_by_text(verdict_sentence(answer))).to_be_visible()
    expect(page.get_by_role("heading", name="How it was measured")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^4 8 .* cheaper$"))).to_be_visible()

    menu(page, "trials").click()
    page.get_by_role("button", name=re.compile("^Trial 4")).click()
    expect(page.get_by_role("heading", name="num_worker_threads=8: the answer")).to_be_visible()
    value = three_digits(answer.rows[0].value)
    expect(page.get_by_role("cell", name="median step time (ms)")).to_be_visible()
    expect(page.get_by_text(f"{value}, 95 % interval")).to_be_visible()
    expect(page.get_by_text("peak_rss_mb 400")).to_be_attached()
    expect(page.get_by_text("outcome completed")).to_be_attached()
    trace = studies / "monday" / "traces" / "num_worker_threads=8.json"
    assert gzip.decompress(downloaded(page, f"{trace.name}.gz")) == trace.read_bytes()


def test_the_other_pages_of_a_study_open(page: Page, monday: str) -> None:
    page.goto(monday)
    for entry in ("analytics", "smartSelection"):
        menu(page, entry).click()
        page.wait_for_url(f"**/{entry}")
        expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
        page.wait_for_load_state("networkidle")


def test_all_studies_of_a_folder_one_by_one_and_compared(page: Page, studies: Path) -> None:
    with dashboard("--studies", str(studies)) as together:
        page.goto(together)
        page.get_by_text("tuesday").click()
        menu(page, "note").click()
        result = tuner.load_study(studies / "tuesday")
        expect(page.get_by_text(str(result))).to_be_visible()
        # Monday's study says what is measured first, and so which trial it is.
        (number,) = [row.trial for row in result.rows if row.label == "num_worker_threads=4"]
        menu(page, "trials").click()
        page.get_by_role("button", name=re.compile(f"^Trial {number}")).click()
        trace = studies / "tuesday" / "traces" / "num_worker_threads=4.json"
        assert gzip.decompress(downloaded(page, f"{trace.name}.gz")) == trace.read_bytes()
        page.goto(f"{together}/compare-studies?ids=0,1")
        for name in ("monday", "tuesday"):
            expect(page.get_by_text(f"median step time (ms) of {name}")).to_be_visible()
