"""What is shown of each stored study and trace is what was shown of it before."""

import re
from statistics import fmean

import pytest

from tests.golden.media import PLANTED, RENDERED, scenarios, shown, stored
from tests.golden.searched import SEARCHED


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
    sentences = [each for each in parts if each.endswith(".")]
    words = [re.findall(r"(?<!\S)[^\s=]*\w[^\s=]*(?!\S)", each) for each in sentences]
    assert len(words) > 200
    assert fmean(map(len, words)) < 15
    assert [each for each in words if len(each) > 24] == []


def test_each_stored_study_can_be_searched_again() -> None:
    studies = {each.removeprefix("study-") for each in scenarios() if each.startswith("study-")}
    assert studies == SEARCHED.keys()
