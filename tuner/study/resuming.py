"""The plan that a search goes on with that resumes a study."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft, asked_draft, changed, draft_plan, given
from tuner.study.folder import StudyFolder, known_folder


def asked_or_resumed_draft(asked: Mapping[str, Any], *, resume: bool) -> PlanDraft:
    """The plan that these keywords of `tuner.tune` ask for, on top of what a resumed study says.

    UsageError if what is to be tuned is not named, or twice, or the study cannot be read.
    """
    is_named = any(asked.get(name) for name in ("workload", "program", "beside", "plan"))
    return _resumed_draft(given(asked)) if resume and not is_named else asked_draft(asked)


def _resumed_draft(asked: Mapping[str, Any]) -> PlanDraft:
    """The plan of the study that the keys name, with what else they say on top."""
    name, storage = asked.get("name"), asked.get("storage")
    out = None if asked.get("out") is None else Path(asked["out"])
    if name is None and out is not None and storage is not None:
        name = StudyFolder(out).manifest.study()
    if name is None and (out is None or storage is not None):
        raise UsageError(
            "name the study to resume, or what it tunes: --resume --study NAME, or the command of "
            "its search with --resume"
        )
    if storage is None and out is None:
        known_folder(str(name))
    # Late: what is mistyped does not wait for Optuna.
    from tuner.study.storage.address import place_of
    from tuner.study.storage.opening import is_half_made, load_study

    place = place_of(str(out)) if name is None else place_of(name, storage=storage, out=out)
    if is_half_made(place.address):
        raise UsageError(
            f"the study {place.address.name} was not created completely, and does not know what "
            "it tunes. The whole command of its search, with --resume or --overwrite, begins it "
            "anew"
        )
    keys = changed(load_study(place).plan().keys(), asked)
    # A person may know a study by the name of its folder.
    return draft_plan({**keys, "name": place.address.name, "out": str(place.folder.root)})
