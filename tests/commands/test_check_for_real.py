"""`--check` with real worlds, as a CI job runs it."""

import json
from pathlib import Path

import pytest

from tests.commands.running import Done, in_new_process

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def test_a_recommendation_is_measured_again(real_search: tuple[Done, Path], tmp_path: Path) -> None:
    _, folder = real_search
    file = folder / "recommended.json"
    done = in_new_process(
        "--check", str(file), "--max-blocks", "4", "--budget", "5m", "--json", cwd=tmp_path
    )
    document = json.loads(done.stdout)
    assert done.returncode == (4 if document["outcome"] == "no-longer-holds" else 0), done.stderr
    assert document["workload"] == "udf"
    assert document["config"] == json.loads(file.read_text())["config"]
    assert document["blocks"] == 4
    # On a full machine four blocks may be too few for a number.
    low = document["speedup"]["ci_low"]
    assert low is None or 0 < low <= document["speedup"]["estimate"]
    # Each block measures the baseline twice, and what is recommended once.
    assert document["machine"]["worlds"] == 12
    assert not list(tmp_path.iterdir())
