import re
from pathlib import Path

import pytest

from testing.specs import threads, workload_spec
from tuner.errors import UsageError
from tuner.plan.draft import draft_plan, plan_mapping, read_plan_file, shipped_plan_path
from tuner.searching.exploring import GRID_SHARE, GRID_WORLDS
from workloads.registry import SHIPPED

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot read the plan {path}: No such file or directory"),
        (b'workload = "udf"\n\nbudget = 60s\n', "the plan {path} is not valid TOML: .*at line 3"),
        *((damage, "the plan {path} is not valid TOML: ")
          for damage in (b"\xff\xfe\x00", b"a = " + b"[" * 100_000, b"budget = " + b"9" * 5000)),
    ],
)  # fmt: skip
def test_a_file_that_is_no_toml_is_refused(
    content: bytes | None, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "plan.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=told.format(path=re.escape(str(path)))):
        read_plan_file(path)


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_plan_names_a_space_in_which_ranks_are_bound_or_not(path: Path) -> None:
    draft = draft_plan(read_plan_file(path))
    assert draft.problems == ()
    if draft.workload:
        assert (draft.workload, shipped_plan_path(draft.workload)) == (path.stem, path)
    assert not draft.chooses_space
    assert draft.space.values_of("cpu_binding") == ["none", "equal"]
    assert "cpu_binding" not in {dimension.knob for dimension in draft.named_baseline.values}
    # Such worlds take up to 0.7 s; then the whole grid is measured.
    needed_s = draft.space.size * GRID_WORLDS * 0.7
    assert needed_s <= GRID_SHARE * draft.measuring.budget_s


def test_each_shipped_workload_and_no_other_has_a_plan() -> None:
    assert all(map(shipped_plan_path, SHIPPED))
    for workload in ("nothing", "../pyproject", "udf/../udf", "x.py:Echo"):
        assert shipped_plan_path(workload) is None


def test_changes_take_the_place_of_what_the_file_says(tmp_path: Path) -> None:
    plan_file = tmp_path / "plan.toml"
    plan_file.write_text(
        'workload = "udf"\nbudget = "60s"\n[options]\ncalls = 4\nsize = 100\n'
        "[space]\nnum_worker_threads = [1, 2]\ntransports = 'shm'\n"
    )
    space = [("num_worker_threads", "4")]
    changes = {"budget": "5m", "space": space, "seed": None, "options": {"size": "400"}}
    assert plan_mapping(plan_file, "file.py:Echo", changes) == {
        "workload": "file.py:Echo", "budget": "5m", "space": space,
        "options": {"calls": 4, "size": "400"},
    }  # fmt: skip
    assert plan_mapping(None, "file.py:Echo", {}) == {"workload": "file.py:Echo"}
    # A shipped workload alone brings its plan.
    shipped = plan_mapping(None, "udf", {"baseline": {"num_worker_threads": 8}})
    assert shipped["space"] == {"num_worker_threads": "1..32:x2", "cpu_binding": "none,equal"}
    assert shipped["baseline"] == {"num_worker_threads": 8}


def test_a_space_for_all_roles_has_a_baseline_for_all_roles() -> None:
    mapping = plan_mapping(None, "udf_sleep", {"space": {"num_worker_threads": [1, 2, 4]}})
    assert mapping["baseline"] == {"server": {"num_worker_threads": 16}}
    assert draft_plan(mapping).finish(workload_spec()).baseline == threads(16)
    mapping["baseline"] = {"server": {"num_worker_threads": 4}}
    baseline = draft_plan(mapping).finish(workload_spec()).baseline
    assert str(baseline) == "num_worker_threads=16 server.num_worker_threads=4"


def test_in_a_plan_of_format_1_a_range_means_the_powers_of_two_and_that_is_told_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.toml"
    path.write_text(
        'format = 1\nworkload = "udf"\n[space]\nnum_worker_threads = "1..32"\n'
        'server.num_worker_threads = ["3..20", "2..6:2"]\n'
    )
    old = draft_plan(plan_mapping(path, None, {}))
    assert [values for _, values in old.space.axes] == [(1, 2, 4, 8, 16, 32), (4, 8, 16, 2, 6)]
    (note,) = old.notes
    assert note.startswith("1..32 means the powers of two in a plan of format 1. ")
    # What is asked for now has the meaning of now.
    new = draft_plan(plan_mapping(path, None, {"space": [("num_worker_threads", "1..3")]}))
    assert (new.space.values_of("num_worker_threads"), new.notes) == ([1, 2, 3], ())
