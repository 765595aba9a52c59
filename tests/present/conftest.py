from pathlib import Path

import pytest

from tests.present.results import study_plan
from tuner.plan.study_plan import StudyPlan


@pytest.fixture
def plan(tmp_path: Path) -> StudyPlan:
    return study_plan(tmp_path / "udf")
