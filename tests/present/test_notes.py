"""The Markdown that the dashboard shows beside a study and beside each trial."""

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from testing.results import ROWS, failed, measured, study_result
from testing.specs import threads
from tests.present.grids import two_knobs
from tuner.present.notes import FOLDED_WIDTH, study_note, trial_notes


def shown(message: str) -> str:
    """What a renderer of GitHub's Markdown, such as the dashboard's, makes of a failure's note."""
    rows = (*ROWS[:4], failed(4, threads(32), message))
    note = trial_notes(study_result(rows=rows))[4]
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(note))


def test_an_eliminated_config_is_not_explained_as_marked() -> None:
    # Optuna's best trial is one that was completed.
    rows = (measured(3, threads(1), 1.0, outcome="eliminated"), *ROWS[:3])
    assert "The dashboard marks" not in study_note(study_result(rows=rows))


@pytest.mark.parametrize(
    "message",
    [
        "TypeError: f() got *two* `values` for <a> & [b](c)",
        "# no heading",
        "a | b ~~c~~ \\ {d}",
        "__init__ of _Worker failed",
    ],
)
def test_a_message_is_shown_unchanged(message: str) -> None:
    escaped = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert shown(message) == f"<h2>num_worker_threads=32</h2>\n<p>Failed, crashed: {escaped}</p>\n"


@pytest.mark.parametrize("mark", ["- first", "+ first", "1. first", "2) first", "=== first"])
def test_a_folded_line_is_no_item_of_a_list(mark: str) -> None:
    folded = shown(f"{'a' * FOLDED_WIDTH} {mark}")
    assert "<li>" not in folded
    assert "<h1>" not in folded
    assert f"<br />\n{mark}" in folded


def test_the_top_says_why_the_dashboard_shows_something_else() -> None:
    """The best trial and the importance of knobs, which Optuna takes from one value per trial."""
    kept = study_result(best=threads(16), verdict="keep-baseline")
    assert "\n\nThe dashboard marks trial 1 as the best" in study_note(kept)
    assert "The answer is trial 0, by the comparison within blocks." in study_note(kept)
    unknown = study_note(replace(kept, best_trial=None, verdict="undecided"))
    assert "No configuration is recommended: that needs a comparison" in unknown
    assert "importance" not in study_note(kept)
    note = study_note(two_knobs())
    assert "Knobs, below, is from the blocks" in note
    assert note.index("the importance of a parameter") < note.index("| trial |")
