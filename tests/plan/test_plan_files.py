import re
from pathlib import Path

import pytest

from tests.plan.specs import threads, workload_spec
from tuner.errors import UsageError
from tuner.plan.draft import draft_plan, plan_mapping, read_plan_file, shipped_plan_path
from tuner.searching.exploring import GRID_SHARE, GRID_WORLDS
from workloads.registry import SHIPPED

STUDIES = Path(__file__).parents[2] / "studies"


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('workload = "udf"\n\nbudget = 60s\n')
    with pytest.raises(UsageError, match=r"is not valid TOML: .*at line 3") as caught:
        read_plan_file(path)
    assert str(caught.value).startswith(f"the plan {path} is not valid TOML: ")
    missing = re.escape(f"cannot read the plan {tmp_path}/no.toml: No such file or directory")
    with pytest.raises(UsageError, match=f"^{missing}$"):
        read_plan_file(tmp_path / "no.toml")


@pytest.mark.parametrize("workload", SHIPPED)
def test_every_shipped_plan_is_read_without_a_mistake(workload: str) -> None:
    path = shipped_plan_path(workload)
    assert path is not None
    draft = draft_plan(read_plan_file(path))
    assert draft.problems == ()
    assert draft.workload == workload


@pytest.mark.parametrize("path", sorted(STUDIES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_plan_names_a_space_in_which_ranks_are_bound_or_not(path: Path) -> None:
    draft = draft_plan(read_plan_file(path))
    assert not draft.chooses_space
    assert draft.space.values_of("cpu_binding") == ["none", "equal"]
    assert "cpu_binding" not in {dimension.knob for dimension, _ in draft.named_baseline.items}
    # Such worlds take up to 0.7 s; then the whole grid is measured.
    needed_s = draft.space.size * GRID_WORLDS * 0.7
    assert needed_s <= GRID_SHARE * draft.measuring.budget_s


def test_the_shipped_plan_of_a_program_names_a_file_that_is_there() -> None:
    draft = draft_plan(read_plan_file(STUDIES / "batch_updates.toml"))
    assert draft.problems == ()
    assert draft.program is not None
    ((python, script, *_),) = draft.program.commands
    assert python == "python"
    assert "tuner" not in re.findall(
        r"^ *(?:import|from) (\w+)", (STUDIES.parent / script).read_text(), re.M
    )


@pytest.mark.parametrize("workload", ["nothing", "../pyproject", "udf/../udf", "x.py:Echo"])
def test_other_workloads_have_no_shipped_plan(workload: str) -> None:
    assert shipped_plan_path(workload) is None


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(
        'workload = "udf"\nbudget = "60s"\n'
        "[options]\ncalls = 4\nsize = 100\n"
        "[space]\nnum_worker_threads = [1, 2]\ntransports = 'shm'\n"
    )
    return path


def test_changes_take_the_place_of_what_the_file_says(plan_file: Path) -> None:
    space = [("num_worker_threads", "4")]
    changes = {"budget": "5m", "space": space, "seed": None, "options": {"size": "400"}}
    assert plan_mapping(plan_file, "file.py:Echo", changes) == {
        "workload": "file.py:Echo",
        "budget": "5m",
        "space": space,
        "options": {"calls": 4, "size": "400"},
    }
    assert plan_mapping(None, "file.py:Echo", {}) == {"workload": "file.py:Echo"}


def test_a_workload_alone_brings_its_shipped_plan() -> None:
    merged = plan_mapping(None, "udf", {"baseline": {"num_worker_threads": 8}})
    assert merged["space"] == {"num_worker_threads": "1..32", "cpu_binding": "none,equal"}
    assert merged["baseline"] == {"num_worker_threads": 8}


def test_a_space_for_all_roles_has_a_baseline_for_all_roles() -> None:
    mapping = plan_mapping(None, "udf_sleep", {"space": {"num_worker_threads": [1, 2, 4]}})
    assert mapping["baseline"] == {"server": {"num_worker_threads": 16}}
    assert draft_plan(mapping).finish(workload_spec()).baseline == threads(16)
    mapping["baseline"] = {"server": {"num_worker_threads": 4}}
    baseline = draft_plan(mapping).finish(workload_spec()).baseline
    assert str(baseline) == "num_worker_threads=16 server.num_worker_threads=4"


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"a = " + b"[" * 100_000, b"budget = " + b"9" * 5000]
)
def test_a_plan_that_toml_cannot_hold_is_told(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not valid TOML: "):
        read_plan_file(path)
