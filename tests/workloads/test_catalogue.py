"""The description of the shipped workloads that is read without importing them."""

import json
from collections import Counter
from pathlib import Path

import pytest

import workloads
from tuner.plan.draft import draft_plan
from tuner.plan.workload_spec import CatalogueEntry, OptionSpec
from tuner.world.shipped import mistakes_of, shipped_catalogue
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
        ("udf", {"space": {"threads": [1], "boss.num_worker_threads": [1]}},
         ["space: unknown knob 'threads'", "unknown role 'boss'; known: caller, server"]),
        ("udf", {"options": {"sizze": 2}, "objective": "stp_ms"},
         ["unknown option 'sizze'; did you mean size? The options are: calls (int, 4), size (int, ",
          "unknown objective 'stp_ms'; did you mean step_ms?"]),
        ("udf", {"options": {"nmu_worker_threads": 4, "sever.num_worker_thread": 4, "zz": 1}},
         ["device (str, 'cpu'). num_worker_threads is a knob: --space tunes it, --baseline sets it",
          "device (str, 'cpu'). server.num_worker_threads is a knob: --space tunes it",
          "device (str, 'cpu')"]),
        ("file.py:Echo", {"space": {"threads": [1]}},
         ["there is no file file.py", "space: unknown knob 'threads'"]),
        ("package.module:Class", {"space": {"boss.num_worker_threads": [1]}},
         ["cannot import package.module: ModuleNotFoundError"]),
        # What may be right is not told.
        ("udf", {"options": {"calls": "3", "device": "cuda"}, "space": {"devices": ["0+1"]}}, []),
    ],
)  # fmt: skip
def test_all_that_is_mistyped_is_told_together(
    workload: str, keys: dict[str, object], mistakes: list[str]
) -> None:
    found = mistakes_of(draft_plan({"workload": workload, **keys}))
    assert len(found) == len(mistakes)
    for mistake, said in zip(mistakes, found, strict=True):
        assert said.startswith(mistake) or mistake in said


def written() -> str:
    """As the workloads say, which takes importing them."""
    entries = [entry_of(name).model_dump(mode="json") for name in SHIPPED]
    return json.dumps(entries, indent=1) + "\n"


def entry_of(name: str) -> CatalogueEntry:
    workload = load_workload(name)
    options = [
        OptionSpec(name=each.name, kind=each.kind.__name__, default=each.default,
                   limits=each.limits, summary=each.summary.split("\n")[0])
        for each in options_of(workload)[0].values()
    ]  # fmt: skip
    roles = Counter(rank.role for rank in workload().ranks())
    summary = (workload.__doc__ or "").strip().split("\n")[0]
    return CatalogueEntry(
        name=name, summary=summary, roles=roles, options=tuple(options), problems=()
    )


if __name__ == "__main__":
    CATALOGUE.write_text(written())
