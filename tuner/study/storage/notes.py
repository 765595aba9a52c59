"""The notes that optuna-dashboard shows: of a study, and of each of its trials."""

from collections.abc import Iterable

import optuna
from optuna.trial import Trial
from optuna_dashboard import get_note, save_note

# The page does not ask again for a trial that has ended.
_LATER = "at the end of the search; reload this page then."


def put_note(owner: optuna.Study | Trial, text: str) -> None:
    """Give a study or a trial this note, in Markdown; nothing is written if it has the same."""
    if get_note(owner) != text:
        save_note(owner, text)


def announce(study: optuna.Study, trials: Iterable[Trial]) -> None:
    """The notes of a study that is being measured: its trials have names, but no numbers yet."""
    put_note(study, f"Being measured. The verdict will be here {_LATER}")
    for trial in trials:
        label = trial.user_attrs["label"]
        put_note(trial, f"## {label}\n\nBeing measured. The numbers will be here {_LATER}")
