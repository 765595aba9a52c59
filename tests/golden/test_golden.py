"""What is shown of each stored study and trace is what was shown of it before."""

import re
from itertools import permutations
from pathlib import Path
from statistics import fmean

import pytest

from tests.golden.media import PLANTED, RENDERED, STORED_STUDIES, scenarios, shown, stored
from tests.golden.searched import SEARCHED
from tests.golden.stored_study import load
from tuner.decide.statistics import Interval
from tuner.present.tables import knobs_of
from tuner.present.wording import ends
from tuner.study.folder import STUDIES, StudyFolder
from tuner.study.stored import find_study


@pytest.mark.parametrize("scenario", scenarios())
def test_every_medium_shows_what_it_showed(scenario: str) -> None:
    now, before = shown(scenario), stored(scenario)
    assert now.keys() == before.keys()
    for file, text in now.items():
        assert text == before[file], f"{scenario}/{file}: `make golden` shows what has changed"


def test_nothing_is_kept_of_what_is_not_stored() -> None:
    assert sorted(path.name for path in RENDERED.iterdir()) == sorted([*scenarios(), PLANTED])


def test_a_sentence_is_short() -> None:
    """`num_worker_threads=4` is no word, and nothing in a table or in code is a sentence."""
    texts = [*RENDERED.glob("study-*/notes.md"), RENDERED / PLANTED / "diagnoses.txt"]
    blocks = "\n".join(path.read_text(encoding="utf-8") for path in texts).split("```")[::2]
    lines = {line for line in "\n".join(blocks).splitlines() if line[:1] not in ("|", "#")}
    parts = {each for line in lines for each in re.split(r"(?<=[.?]) ", line)}
    sentences = [part for part in parts if part.endswith(".")]
    words = [re.findall(r"(?<!\S)[^\s=]*\w[^\s=]*(?!\S)", sentence) for sentence in sentences]
    assert len(words) > 200
    assert fmean(map(len, words)) < 15
    assert [word for word in words if len(word) > 24] == []


def test_each_stored_study_can_be_searched_again() -> None:
    studies = {each.removeprefix("study-") for each in scenarios() if each.startswith("study-")}
    assert studies == SEARCHED.keys()


@pytest.mark.parametrize("scenario", [each for each in scenarios() if each.startswith("study-")])
def test_an_interval_of_a_ratio_is_of_the_comparison_of_all_at_once(
    scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = scenario.removeprefix("study-")
    load(STORED_STUDIES / f"{name}.json", StudyFolder(STUDIES / name))
    answer = find_study(name)
    trials = [row.trial for row in answer.rows]
    pairs = [answer.paired.gain(*pair) for pair in permutations(trials, 2)]
    intervals: list[Interval | None] = [each and each.exp() for each in pairs]
    # What has another name: forecasts, the front, and the baseline twice.
    forecasts = [*(row.forecast for row in answer.rows), *answer.forecasts_alone.values()]
    intervals += [forecast.speedup for forecast in forecasts if forecast is not None]
    intervals += [change.times for change in answer.changes]
    intervals += [answer.noise_floor]
    for point in answer.front.points if answer.front else ():
        intervals += [goal.ratio and goal.ratio.inverse() for goal in (point.first, point.second)]
        intervals += [point.first.ratio, point.second.ratio]
    allowed = {ends(interval) for interval in intervals if interval is not None}
    knobs = knobs_of(answer)
    of_a_fit = " ".join(cell for row in knobs.rows for cell in row) if knobs else ""
    allowed |= {*_ENDS.findall(of_a_fit)}
    texts = stored(scenario)
    for file in ("terminal-80.txt", "terminal-all.txt", "notes.md", "page.html"):
        assert {*_ENDS.findall(texts[file])} <= allowed, file


_ENDS = re.compile(r"\(([\d.]+ to [\d.]+)\)")
