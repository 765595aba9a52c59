"""Studies side by side: what is compared, and what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testing.results import ENVIRONMENT, in_blocks, measured, study_plan, study_result
from testing.specs import for_all, threads, workload_spec
from tuner.errors import UsageError
from tuner.plan.objectives import OBJECTIVES
from tuner.present.pages import comparison_html
from tuner.present.studies_compared import Comparison
from tuner.study.answer import StudyAnswer
from tuner.study.folder import StudyFolder


def study(name: str, tmp_path: Path, **changes: Any) -> StudyAnswer:
    keys = changes.pop("keys", {})
    plan = study_plan(changes.pop("spec", None), name=name, **keys)
    return in_blocks(study_result(plan, tmp_path / name, **changes))


@pytest.fixture
def here(tmp_path: Path) -> StudyAnswer:
    return study("here", tmp_path)


@pytest.fixture
def there(tmp_path: Path) -> StudyAnswer:
    rows = (measured(1, threads(4), 1.0, (0.9, 1.1)), measured(0, threads(16), 4.0),
            measured(2, threads(2), 5.0))  # fmt: skip
    other = ENVIRONMENT.model_copy(update={"cpu_model": "Slide Rule", "cpu_count": 8})
    return study("there", tmp_path, rows=rows, environment=other)


def test_shared_configs_stand_side_by_side(here: StudyAnswer, there: StudyAnswer) -> None:
    comparison = Comparison.of([here, there])
    assert comparison.reference == threads(16)
    lines = dict(comparison.lines())
    assert list(lines) == ["num_worker_threads=4", "num_worker_threads=16"]
    assert lines["num_worker_threads=4"][0] == ("2", "1.9-2.1", "1.50 (1.47 to 1.53)", "best")
    assert lines["num_worker_threads=4"][1] == ("1", "0.9-1.1", "4.00 (3.92 to 4.08)", "best")
    assert lines["num_worker_threads=16"][1] == ("4", "", "1", "baseline")
    assert comparison.differences() == [
        ("CPU", ["Abacus 9000, 2 logical CPUs", "Slide Rule, 8 logical CPUs"])
    ]
    assert comparison.only_in_one() == [
        ("here", "num_worker_threads=8, num_worker_threads=1"),
        ("there", "num_worker_threads=2"),
    ]


def test_a_baseline_not_in_all_studies_is_no_reference(
    here: StudyAnswer, there: StudyAnswer
) -> None:
    rows = (there.rows[0], replace(there.rows[2], trial=0))
    comparison = Comparison.of([here, replace(there, rows=rows)])
    assert comparison.reference == threads(4)
    assert ("baseline", ["num_worker_threads=16", "num_worker_threads=2"]) in (
        comparison.differences()
    )


def test_configs_missing_from_one_of_three_are_blank_there(
    here: StudyAnswer, there: StudyAnswer
) -> None:
    third = replace(there, study="third")
    cells = dict(Comparison.of([here, there, third]).lines())
    assert cells["num_worker_threads=2"][0] == ("", "", "", "")
    assert cells["num_worker_threads=2"][2].value == "5"


def test_what_was_measured_differently_is_refused_with_what_differs(
    tmp_path: Path, here: StudyAnswer
) -> None:
    other = study(
        "other", tmp_path, keys={"confidence": "90%", "min_time": "1s"},
        spec=workload_spec(intra_op_threads=4), objective=OBJECTIVES["cpu_ms_per_step"],
    )  # fmt: skip
    with pytest.raises(UsageError) as caught:
        Comparison.of([here, other])
    assert caught.value.problems == (
        "objective: step_ms (here), cpu_ms_per_step (other)",
        "confidence of the intervals: 95 % (here), 90 % (other)",
        "measured time of a world: 100ms (here), 1s (other)",
        "intra-op threads: 1 (here), 4 (other)",
    )


def test_studies_without_common_configs_are_refused(here: StudyAnswer, there: StudyAnswer) -> None:
    apart = replace(there, rows=(measured(0, threads(64), 1.0),))
    with pytest.raises(UsageError, match="no configuration was measured in all of them: here"):
        Comparison.of([here, apart])


def test_studies_of_one_name_are_named_by_their_folders(here: StudyAnswer, tmp_path: Path) -> None:
    moved = replace(here, files=StudyFolder(tmp_path / "old"))
    names = [name for name, _ in Comparison.of([here, moved]).studies]
    assert names == [f"here in {tmp_path / 'here'}", f"here in {tmp_path / 'old'}"]


def test_the_page_shows_it_all(here: StudyAnswer, there: StudyAnswer) -> None:
    page = comparison_html(Comparison.of([here, there]), [])
    for text in (
        "Slide Rule, 8 logical CPUs",
        "Use num_worker_threads=4: 1.50 times as fast",
        "against num_worker_threads=16",
        "Against num_worker_threads=16: how many times as fast in the same study, with its",
        '<td data-label="there: median step time (ms)">1</td>'
        '<td data-label="there: interval">0.9-1.1</td>'
        '<td data-label="there: against num_worker_threads=16">4.00 (3.92 to 4.08) (best)</td>',
        "Measured in one study only",
        "in 2 studies, by median step time (ms); lower is better.",
    ):
        assert text in page


def test_the_page_says_which_way_a_programs_metric_is_better(tmp_path: Path) -> None:
    objective = replace(OBJECTIVES["metric"], maximize=True)
    studies = [study(name, tmp_path, objective=objective) for name in ("here", "there")]
    assert "; higher is better." in comparison_html(Comparison.of(studies), [])


def test_configs_that_act_alike_are_compared_however_they_are_written(
    here: StudyAnswer, there: StudyAnswer
) -> None:
    written = ((4, None), (16, None), (2, "uv"))
    configs = (for_all(num_worker_threads=n, transports=way) for n, way in written)
    rows = tuple(replace(row, config=each) for row, each in zip(there.rows, configs, strict=True))
    comparison = Comparison.of([here, replace(there, rows=rows)])
    lines = dict(comparison.lines())
    assert list(lines) == ["num_worker_threads=4", "num_worker_threads=16"]
    assert [cell.mark for cell in lines["num_worker_threads=4"]] == ["best", "best"]
    assert comparison.only_in_one()[1] == ("there", "num_worker_threads=2 transports=uv")
