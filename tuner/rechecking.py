"""`tuner.check()`: measures an earlier recommendation again, and says whether it holds."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tuner.api import AnswerFiles, searched
from tuner.errors import (
    BudgetTooShortError,
    InterruptedSearchError,
    NothingRanError,
    ProgramFailedError,
    UsageError,
)
from tuner.plan.draft import draft_plan
from tuner.plan.keys import PLAN_KEYS
from tuner.present.check_result import CheckResult
from tuner.recommended.building import recommendation_of
from tuner.recommended.model import Recommendation, read_recommendation
from tuner.recommended.recheck import recheck_plan
from tuner.scratch import own_prefix
from tuner.searching.progress_reports import Observer
from tuner.searching.session import Notes, SearchRequest, SearchStopped
from tuner.study.answer import StudyAnswer
from tuner.study.finding import find_study
from tuner.study.folder import StudyFolder
from tuner.world.launcher import Launcher


class _NoFiles:
    """Presents nothing: a check has its answer in its result."""

    def write_answer(self, answer: StudyAnswer) -> None:
        pass

    def write_report(self, answer: StudyAnswer) -> None:
        pass

    def notes(self, answer: StudyAnswer) -> Notes:
        return Notes("", {})


def check(
    study: str | Path,
    *,
    storage: str | None = None,
    budget: str | float | None = None,
    max_blocks: int | None = None,
    epsilon: str | float | None = None,
    confidence: str | float | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    ray_address: str | None = None,
    interface: str | None = None,
    isolation: bool | None = None,
    observer: Observer | None = None,
    show: Callable[[bytes], None] | None = None,
    launcher: Launcher | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> CheckResult:
    """Measure an earlier recommendation against its baseline, on this machine and now.

    Where the baseline was recommended, its strongest rival is measured with it.

    Args:
        study: A study's name or folder, or a `recommended.json`, or an export to JSON or TOML.
        storage: The Optuna storage URL that the study was searched with, if that is not in its
            folder.
        budget: The most wall time. It ends earlier where the answer is clear. Default: 60 s; for a
            program 5 min.
        max_blocks: The most pairs to measure. Default: as many as the budget allows.
        epsilon: The smallest difference that matters, a fraction. Default: the study's.
        confidence: How sure every claim must be, a fraction. Default: the study's.
        seed: As for `tune`.
        out: A folder for the files of the measurement; an earlier check in it is deleted. Default:
            they are not kept.
        ray_address: As for `tune`. Default: the study's, as for the next two; what else it says of
            where its worlds ran cannot change.
        interface: As for `tune`.
        isolation: As for `tune`.
        observer: As for `tune`.
        show: As for `tune`.
        launcher: As for `tune`.
        clock: As for `tune`.

    Returns:
        The result: `outcome` is `holds`, `no-longer-holds`, `undecided` or `cannot-run`; `speedup`
        is today's with its interval, and `str(result)` a sentence.

    Raises:
        UsageError: There is no such study, it recommends nothing, or it compared nothing with its
            baseline.
        NothingRanError: The program fails as it is.
        InterruptedSearchError: A KeyboardInterrupt came.
    """
    changes = {
        key: value
        for key, value in locals().items()
        if key in PLAN_KEYS and key not in ("launcher", "storage") and value is not None
    }
    earlier = recommendation_at(str(study), storage)
    with tempfile.TemporaryDirectory(prefix=own_prefix()) as scratch:
        folder = Path(scratch) / "check" if out is None else Path(out)
        draft = draft_plan({**recheck_plan(earlier), **changes, "out": str(folder)})
        presenter = _NoFiles() if out is None else AnswerFiles()
        request = SearchRequest(draft=draft, overwrite=True)
        try:
            answer = searched(request, presenter, observer, show, launcher, clock)
        except BudgetTooShortError as error:
            # The study of a check goes with its folder.
            raise UsageError(error.why) from None
        except SearchStopped:
            raise InterruptedSearchError("the check was interrupted") from None
        except ProgramFailedError as error:
            raise NothingRanError(
                f"the recommendation {earlier.config} cannot run here: {error}"
            ) from None
    return CheckResult(earlier, answer)


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
