"""The plan of a search: the one that is asked for, or that of a study that is gone on with."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.errors import UsageError
from tuner.files import shown
from tuner.plan.draft import PlanDraft, draft_plan
from tuner.plan.request import asked_draft, given
from tuner.study.folder import STUDIES, StudyFolder


def draft_of(
    workload: str | None,
    program: Sequence[str] | str | None,
    beside: Sequence[Sequence[str] | str],
    plan: str | Path | None,
    changes: Mapping[str, Any],
    *,
    resume: bool,
) -> PlanDraft:
    """The plan that the keywords of `tuner.tune` ask for.

    Where a study is resumed, and nothing says what is tuned, the study says it; what is given
    besides, such as a larger budget, replaces what its plan says.

    Raises:
        UsageError: What is to be tuned is not named, or twice; or the study is not there, or
            cannot be read.
    """
    if resume and workload is None and plan is None and program is None and not beside:
        asked = given(changes)
        return draft_plan({**_plan_of_study(asked), **asked})
    return asked_draft(workload, program, beside, plan, changes)


def resume_command(study: str, folder: StudyFolder, budget_s: int | None = None) -> str:
    """One line for a shell, in the current folder, that goes on with a study.

    Args:
        study: Its name.
        folder: The folder of its files.
        budget_s: The budget to name; None where that of its plan is not spent.
    """
    words = ["python", "-m", "tuner.search", "--resume", *flags_naming(study, folder)]
    return shlex.join(words if budget_s is None else [*words, "--budget", f"{budget_s}s"])


def flags_naming(study: str, folder: StudyFolder) -> list[str]:
    """The flags that say where a study is. A storage may be a secret, and is left to fill in."""
    flags = ["--study", study]
    if folder.root.absolute() != (STUDIES / study).absolute():
        flags += ["--out", shown(folder.root)]
    return flags if folder.database.is_file() else [*flags, "--storage", "URL"]


def _plan_of_study(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the plan of the study that these name."""
    # Late: what is mistyped in a new search does not wait for Optuna.
    from tuner.study.finding import place_of
    from tuner.study.storage.opening import load_study

    name, out = asked.get("name"), asked.get("out")
    if name is None and out is None:
        raise UsageError(
            "name the study to continue, or what it tunes: --resume --study NAME, or the command "
            "of its search with --resume"
        )
    place = place_of(
        name if name is not None else str(out),
        storage=asked.get("storage"),
        out=None if out is None or name is None else Path(out),
    )
    return {**load_study(place).plan().keys(), "out": str(place.folder.root)}
