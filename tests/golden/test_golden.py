"""What is shown of each stored study and trace is what was shown of it before."""

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


def test_each_stored_study_can_be_searched_again() -> None:
    studies = {each.removeprefix("study-") for each in scenarios() if each.startswith("study-")}
    assert studies == SEARCHED.keys()
