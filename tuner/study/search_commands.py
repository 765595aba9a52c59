"""The command lines that search for what a plan says, or that go on with a study."""

from collections.abc import Mapping
from typing import Any

from tuner.files import shown
from tuner.plan.config import Config
from tuner.plan.keys import search_arguments
from tuner.plan.knobs import KNOBS
from tuner.plan.measuring import usual_measuring
from tuner.plan.study_plan import StudyPlan
from tuner.study.answer import StudyAnswer
from tuner.study.folder import STUDIES
from tuner.text import command


def resume_command(answer: StudyAnswer) -> str:
    """One line for a shell, in the current folder, that continues a study."""
    place = search_arguments(place_keys(answer))
    return command("search", "--resume", *place, *more_flags(answer))


def place_keys(answer: StudyAnswer) -> dict[str, str | None]:
    """The keys that say where a study is; a password in its storage's URL is left to fill in."""
    root = answer.files.root
    is_usual = root.absolute() == (STUDIES / answer.study).absolute()
    out = None if is_usual else shown(root)
    return {"name": answer.study, "out": out, "storage": answer.storage}


def more_flags(answer: StudyAnswer) -> list[str]:
    """The flags that let a study measure more; none where an interrupted one has the time."""
    if answer.interrupted:
        return []
    if answer.needed_s is not None:
        return search_arguments({"budget": f"{answer.needed_s}s"})
    most = answer.plan.measuring.max_blocks
    more = 2 * most if most is not None and answer.blocks >= most else None
    return search_arguments({"budget": f"{answer.resume_budget_s}s", "max_blocks": more})


def pairs_of(config: Config) -> list[tuple[str, str]]:
    """Knobs with their values, as the command line gives them."""
    return [(str(dim), KNOBS[dim.knob].format(value)) for dim, value in config.items]


def search_command(plan: StudyPlan, place: Mapping[str, str | None]) -> str:
    """One line for a shell that searches for what this plan does; `place` has its study's keys."""
    keys = {
        **plan.keys(),
        "space": [
            (str(dimension), ",".join(map(KNOBS[dimension.knob].format, values)))
            for dimension, values in plan.space.axes
        ],
        "baseline": pairs_of(plan.subject.named_baseline(plan.baseline)),
        "budget": plan.measuring.budget,
    }
    del keys["name"]
    return command_of({**keys, **place}, {"objective": plan.subject.objective_name})


def command_of(keys: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """One line that asks for these keys, but for those that are `usual` or have their default."""
    defaults = usual_measuring(of_program="programs" in keys).keys()
    arguments = search_arguments(keys, {**defaults, **usual})
    return command("search", *arguments)
