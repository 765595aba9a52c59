"""An earlier recommendation, by the study or the file that a person knows it by."""

from pathlib import Path

from tuner.errors import UsageError
from tuner.recommended.building import recommendation_of
from tuner.recommended.json_and_toml import read_recommendation
from tuner.recommended.model import Recommendation
from tuner.study.finding import find_study
from tuner.study.folder import StudyFolder


def recommendation_at(reference: str, storage: str | None = None) -> Recommendation:
    """What a study recommends, or what a file of one says.

    Args:
        reference: A study's name or folder, or a `recommended.json`, or an export of it. Of a
            folder without a database its `recommended.json` counts.
        storage: The Optuna storage URL that the study was searched with, if that is not in its
            folder.

    Raises:
        UsageError: There is no such study or file, or it recommends nothing.
    """
    path = Path(reference)
    is_file = path.is_file() and path.name != StudyFolder(Path()).database.name
    if storage is None and (is_file or path.suffix in (".json", ".toml")):
        return read_recommendation(path)
    try:
        return recommendation_of(find_study(reference, storage=storage))
    except UsageError:
        folder = StudyFolder(path)
        if storage is None and not folder.database.exists() and folder.recommended.is_file():
            return read_recommendation(folder.recommended)
        raise
