"""The plan that a person asks for: keywords, on top of a plan file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.errors import UsageError
from tuner.plan.draft import PlanDraft, draft_plan, read_plan_file, shipped_plan_path
from tuner.plan.keys import PLAN_KEYS


def asked_draft(
    workload: str | None,
    program: Sequence[str] | None,
    beside: Sequence[Sequence[str]],
    plan: str | Path | None,
    changes: Mapping[str, Any],
) -> PlanDraft:
    """The plan that the keywords of `tuner.tune` ask for.

    UsageError if what is to be tuned is not named, or twice.
    """
    if workload is None and plan is None and program is None:
        raise UsageError(
            "name a workload, a plan or a program: --workload udf, --plan FILE, -- python main.py"
        )
    if beside and program is None:
        raise UsageError("beside is for commands that run beside a program, and there is none")
    if workload is not None and program is not None:
        raise UsageError("name a workload or a program, not both")
    programs = None if program is None else [program, *beside]
    return draft_plan(plan_mapping(plan, workload, {"programs": programs, **given(changes)}))


def given(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of `tuner.tune` that somebody gave: a switch that is off is none."""
    switches = [name for name, key in PLAN_KEYS.items() if key.form == "switch"]
    return {k: v for k, v in changes.items() if v or k not in switches}


def plan_mapping(
    plan: str | Path | None, workload: str | None, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """The keys of a plan file, with `changes` on top of them, in which None is no change.

    Without a plan file, the plan shipped for the workload is taken. `options` are merged; every
    other change replaces what the file says, the search space as a whole.
    """
    path = Path(plan) if plan is not None else workload and shipped_plan_path(workload)
    mapping = read_plan_file(path) if path else {}
    if workload is not None:
        mapping["workload"] = workload
    if changes.get("programs") is not None:
        mapping.pop("program", None)
    return changed(mapping, changes)


def changed(mapping: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's mapping with `changes` on top of it, as `plan_mapping` has them."""
    new = {key: value for key, value in changes.items() if value is not None}
    if "options" in new and isinstance(mapping.get("options", {}), Mapping):
        new["options"] = {**mapping.get("options", {}), **new["options"]}
    return {**mapping, **new}
