"""How a study is resumed: the command that does it, and the plan that its search goes on with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.errors import UsageError
from tuner.files import shown
from tuner.plan.draft import PlanDraft, asked_draft, changed, draft_plan, given
from tuner.plan.keys import search_arguments
from tuner.study.folder import STUDIES, StudyFolder
from tuner.text import command

if TYPE_CHECKING:
    from tuner.study.answer import StudyAnswer


def resume_command(answer: "StudyAnswer") -> str:
    """One line for a shell, in the current folder, that continues a study."""
    place = search_arguments(place_keys(answer))
    return command("search", "--resume", *place, *more_flags(answer))


def place_keys(answer: "StudyAnswer") -> dict[str, str | None]:
    """The keys that say where a study is; a password in its storage's URL is left to fill in."""
    root = answer.files.root
    is_usual = root.absolute() == (STUDIES / answer.study).absolute()
    out = None if is_usual else shown(root)
    return {"name": answer.study, "out": out, "storage": answer.storage}


def more_flags(answer: "StudyAnswer") -> list[str]:
    """The flags that let a study measure more; none where an interrupted one has the time."""
    if answer.interrupted:
        return []
    if answer.needed_s is not None:
        return search_arguments({"budget": f"{answer.needed_s}s"})
    most = answer.plan.measuring.max_blocks
    more = 2 * most if most is not None and answer.blocks >= most else None
    return search_arguments({"budget": f"{answer.resume_budget_s}s", "max_blocks": more})


def asked_or_resumed_draft(
    workload: str | None,
    program: Sequence[str] | str | None,
    beside: Sequence[Sequence[str] | str],
    plan: str | Path | None,
    changes: Mapping[str, Any],
    *,
    resume: bool,
) -> PlanDraft:
    """The plan that the keywords of `tuner.tune` ask for, on top of what a resumed study says.

    UsageError if what is to be tuned is not named, or twice, or the study cannot be read.
    """
    if resume and workload is None and plan is None and program is None and not beside:
        return _resumed_draft(given(changes))
    return asked_draft(workload, program, beside, plan, changes)


def _resumed_draft(asked: Mapping[str, Any]) -> PlanDraft:
    """The plan of the study that the keys name, with what else they say on top."""
    # Late: what is mistyped in a new search does not wait for Optuna.
    from tuner.study.storage.address import place_of
    from tuner.study.storage.opening import is_half_made, load_study

    name, storage = asked.get("name"), asked.get("storage")
    out = None if asked.get("out") is None else Path(asked["out"])
    if name is None and out is not None and storage is not None:
        name = StudyFolder(out).manifest.study()
    if name is None and (out is None or storage is not None):
        raise UsageError(
            "name the study to resume, or what it tunes: --resume --study NAME, or the command of "
            "its search with --resume"
        )
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
