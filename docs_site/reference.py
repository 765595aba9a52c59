"""The pages that are made of the code: the public names, the knobs and the objectives."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import griffe

import tuner
from docs_site.pages import ROOT
from tuner.plan.knobs import KNOBS
from tuner.plan.objectives import OBJECTIVES
from tuner.recommended.model import json_schema

PUBLIC: Mapping[str, Sequence[str]] = {
    "Tune": ("tune", "check", "sweep", "load_study", "shipped_workloads"),
    "Use a recommendation": (
        "load_rpc_options",
        "EnvironmentWarning",
        "ThreadsWarning",
        "MissingPackageError",
    ),
    "See inside": ("profile", "read_trace", "forecast", "changes"),
    "Write a workload": ("Workload", "Rank", "World", "WorkloadError"),
}
"""Every name of `tuner.__all__`, in the order of the page."""

GIVEN = (
    "tuner.present.study_result.StudyResult",
    "tuner.present.check_result.CheckResult",
    "tuner.trace.record.profile.Profile",
    "tuner.trace.model.trace.Trace",
    "tuner.plan.workload_spec.CatalogueEntry",
    "tuner.api.SearchInterrupted",
)
"""What the public functions give and raise, and what nobody makes on his own."""


_UNSHOWN = ("model_config",)
"""What pydantic is told."""


def api_page() -> str:
    """The page of the public names; each is filled in from its docstring.

    Raises:
        ValueError: A public name has no place on the page, or the page has one too many; or one
            of them, or a member of it, has no docstring: the page would leave it out.
    """
    placed = [name for names in PUBLIC.values() for name in names]
    if sorted(placed) != sorted(tuner.__all__):
        differing = ", ".join(sorted(set(placed) ^ set(tuner.__all__))) or "one is there twice"
        raise ValueError(f"docs_site/reference.py and tuner.__all__ differ: {differing}")
    named = [*(f"tuner.{name}" for name in placed), *GIVEN, "tuner.study.answer.StudyAnswer"]
    if missing := [*without_docstring(named)]:
        raise ValueError(f"without a docstring: {', '.join(missing)}")
    lines = ["# Python", "", "`import tuner` gives these names; each is imported when it is used."]
    for title, names in PUBLIC.items():
        lines += ["", f"## {title}"]
        for name in names:
            lines += ["", f"::: tuner.{name}"]
    lines += ["", "## What they give"]
    for path in GIVEN:
        lines += ["", f"::: {path}", "    options:", "      inherited_members: true"]
    return "\n".join([*lines, ""])


def without_docstring(paths: Sequence[str], root: Path = ROOT) -> Iterator[str]:
    """Those of these names, and of the public members of their classes, that say nothing.

    Args:
        paths: Dotted names.
        root: The folder with the packages.
    """
    loader = griffe.GriffeLoader(search_paths=[root])
    for package in dict.fromkeys(path.partition(".")[0] for path in (*paths, "workloads")):
        loader.load(package, try_relative_path=False)
    loader.resolve_aliases(external=False)
    for path in paths:
        found = loader.modules_collection[path]
        if not found.docstring:
            yield path
        for name, member in found.members.items() if found.is_class else ():
            if not (member.docstring or name.startswith("_") or name in _UNSHOWN):
                yield f"{path}.{name}"


def registries_page() -> str:
    """The page of the knobs and the objectives."""
    knobs = [
        (f"`{knob.name}`", knob.summary, _default(knob.format(knob.default)),
         "yes" if knob.same_for_all_roles else "no")
        for knob in KNOBS.values()
    ]  # fmt: skip
    objectives = [
        (f"`{each.name}`", each.label, each.unit or "its own",
         " and ".join(f"{kind}s" for kind in each.of), "traced" if each.traced else "untraced")
        for each in OBJECTIVES.values()
    ]  # fmt: skip
    return "\n".join(
        [
            "# Knobs and objectives",
            "",
            "These tables are made of the program's own registries when the site is built.",
            "[Commands](commands.md#search) says how values are written.",
            "",
            "## Knobs",
            "",
            "What `--space` can tune and `--baseline` can set.",
            "",
            *_table(("knob", "what it is", "default", "the same for all roles"), knobs),
            "",
            "## Objectives",
            "",
            "What `--objective` can compare and `--require` can limit.",
            "",
            *_table(("objective", "what it is", "unit", "of", "worlds"), objectives),
            "",
            "`recommended.json` follows [this JSON Schema](recommended.schema.json).",
            "",
        ]
    )


def recommended_schema() -> str:
    """The JSON Schema of `recommended.json`."""
    return json.dumps(json_schema(), indent=2) + "\n"


def _default(text: str) -> str:
    return "PyTorch's own" if text == "default" else text


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heading, ["---"] * len(heading), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines]
