"""The shipped workloads as the package describes them, so that nothing waits for torch.

`tests/workloads/test_catalogue.py` compares the description with the workloads themselves.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from tuner.errors import UsageError
from tuner.plan.config import knobs_meant
from tuner.plan.draft import PlanDraft
from tuner.plan.space import unknown_roles
from tuner.plan.workload_spec import CatalogueEntry, RankSpec, WorkloadSpec
from tuner.workloads_package import own_workloads

_MANY = 1000
"""CUDA devices: how many there are is for a process that imports torch to say."""


def shipped_catalogue() -> list[CatalogueEntry]:
    """The shipped workloads, each with why it cannot run here."""
    folder = Path(own_workloads().__path__[0])
    from workloads.needs import missing_packages

    entries = json.loads((folder / "catalogue.json").read_text())
    for entry in entries:
        if problems := missing_packages(entry["name"]):
            entry |= {"roles": {}, "problems": problems}
    return [CatalogueEntry.model_validate(entry) for entry in entries]


def mistakes_of(draft: PlanDraft) -> list[str]:
    """What is wrong with a draft for a workload, as far as is known without importing it."""
    is_local = draft.launching.launcher == "local"  # elsewhere there are other files
    if draft.program is not None and is_local:
        # Late: most requests name no program.
        from tuner.world.command.running import check_commands

        try:
            check_commands(draft.program.commands)
        except UsageError as error:
            return [*(error.problems or [str(error)]), *draft.problems]
    if not draft.workload:
        return list(draft.problems)
    entries = {entry.name: entry for entry in shipped_catalogue()}
    if (entry := entries.get(draft.workload)) is None:
        own = _own_mistakes(draft, list(entries)) if is_local or ":" not in draft.workload else []
        return [*own, *draft.problems]
    if mistakes := _option_mistakes(entry, draft.options):
        return [*mistakes, *draft.problems]
    if draft.problems:
        try:
            draft.finish(_spec_of(entry))
        except UsageError as error:
            return list(error.problems) or [str(error)]
    named = [*draft.space.dimensions, *draft.named_baseline.values]
    return [*draft.problems, *(unknown_roles(named, list(entry.roles)) if entry.roles else [])]


def _own_mistakes(draft: PlanDraft, shipped: list[str]) -> list[str]:
    from workloads.naming import unknown_workload
    from workloads.unimported import mistakes_in_source

    if ":" not in draft.workload:
        return [unknown_workload(draft.workload, shipped)]
    return knobs_meant(mistakes_in_source(draft.workload, draft.options), draft.options)


def _option_mistakes(entry: CatalogueEntry, given: Mapping[str, object]) -> list[str]:
    from workloads.naming import unknown_option
    from workloads.options import kind_mistake

    known = {option.name: (option.kind, option.default) for option in entry.options}
    found = (
        kind_mistake(name, known[name][0], raw) if name in known else unknown_option(name, known)
        for name, raw in given.items()
    )
    return knobs_meant([line for line in found if line], given, list(entry.roles))


def _spec_of(entry: CatalogueEntry) -> WorkloadSpec:
    """The workload with its default options, where all that may be there is there."""
    ranks = [
        RankSpec(name=f"{role}{number}", role=role)
        for role, count in entry.roles.items()
        for number in range(count)
    ]
    options = {option.name: option.default for option in entry.options}
    return WorkloadSpec(
        reference=entry.name, summary=entry.summary, options=options, ranks=tuple(ranks),
        intra_op_threads=1, cuda_devices=_MANY,
    )  # fmt: skip
