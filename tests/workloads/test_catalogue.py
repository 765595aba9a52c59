"""The description of the shipped workloads that is read without importing them."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import workloads
from tuner.plan.draft import draft_plan
from tuner.plan.workload_spec import CatalogueEntry, OptionSpec
from tuner.world.shipped import mistakes_of, shipped_catalogue
from workloads import WorkloadError
from workloads.options import options_of
from workloads.registry import SHIPPED, load_workload

CATALOGUE = Path(workloads.__file__).with_name("catalogue.json")


@pytest.mark.slow
@pytest.mark.thorough
def test_it_says_what_the_workloads_say() -> None:
    """`python -m tests.workloads.test_catalogue` writes it again."""
    assert written() == CATALOGUE.read_text()


def test_a_workload_whose_package_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.needs.find_spec", lambda name: None)
    entries = {entry.name: entry for entry in shipped_catalogue()}
    assert list(entries) == list(SHIPPED)
    assert entries["cartpole"].problems == (
        "it needs Gymnasium: pip install 'rpc-tuner[cartpole]'",
    )
    assert entries["cartpole"].roles == {}
    assert entries["udf"].problems == ()
    assert sum(entries["udf"].roles.values()) == 2


@pytest.mark.parametrize(
    ("workload", "keys", "mistakes"),
    [
        ("udff", {}, ["unknown workload 'udff'; did you mean udf? Known: builtin, udf, "]),
        ("udf", {"options": {"sizze": 2, "calls": "many"}},
         ["unknown option 'sizze'; did you mean size? The options are: calls (int, 4), size (int, ",
          "option calls must be int, got 'many'"]),
        ("udf", {"space": {"threads": [1], "boss.num_worker_threads": [1]}},
         ["space: unknown knob 'threads'", "unknown role 'boss'; known: caller, server"]),
        ("udf", {"options": {"sizze": 2}, "objective": "stp_ms"},
         ["unknown option 'sizze'", "unknown objective 'stp_ms'; did you mean step_ms?"]),
        ("udf", {"options": {"nmu_worker_threads": 4, "sever.num_worker_thread": 4, "zz": 1}},
         ["device (str, 'cpu'). num_worker_threads is a knob: --space tunes it, --baseline sets it",
          "device (str, 'cpu'). server.num_worker_threads is a knob: --space tunes it",
          "device (str, 'cpu')"]),
        ("file.py:Echo", {"space": {"threads": [1]}}, ["space: unknown knob 'threads'"]),
    ],
)  # fmt: skip
def test_all_that_is_mistyped_is_told_together(
    workload: str, keys: dict[str, object], mistakes: list[str]
) -> None:
    found = mistakes_of(draft_plan({"workload": workload, **keys}))
    assert len(found) == len(mistakes)
    for mistake, said in zip(mistakes, found, strict=True):
        assert said.startswith(mistake) or mistake in said


@pytest.mark.parametrize(
    "keys",
    [
        {"workload": "udf", "options": {"calls": "3", "device": "cuda"}},
        {"workload": "udf", "space": {"devices": ["0", "0+1"]}},
        {"workload": "file.py:Echo", "options": {"any": 1}},
        {"workload": "package.module:Class", "space": {"boss.num_worker_threads": [1]}},
        {"program": ["python", "main.py"]},
    ],
)
def test_what_may_be_right_is_not_told(keys: dict[str, object]) -> None:
    assert mistakes_of(draft_plan(keys)) == []


def described() -> list[CatalogueEntry]:
    """As the workloads say, which takes importing them."""
    found = []
    for name in SHIPPED:
        workload_class = load_workload(name)
        roles: dict[str, int] = {}
        problems: Sequence[str] = ()
        try:
            roles = dict(Counter(rank.role for rank in workload_class().ranks()))
        except WorkloadError as error:
            problems = error.problems
        options = tuple(
            OptionSpec(
                name=option.name,
                kind=option.kind.__name__,
                default=option.default,
                limits=option.limits,
                summary=option.summary.split("\n")[0],
            )
            for option in options_of(workload_class)[0].values()
        )
        summary = (workload_class.__doc__ or "").strip().split("\n")[0]
        found.append(
            CatalogueEntry(
                name=name, summary=summary, roles=roles, options=options, problems=tuple(problems)
            )
        )
    return found


def written() -> str:
    entries = [entry.model_dump(mode="json") for entry in described()]
    return json.dumps(entries, indent=1) + "\n"


if __name__ == "__main__":
    CATALOGUE.write_text(written())
