"""Every notebook runs, in little time; what is kept of its outputs is small and free of errors."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [
    pytest.mark.world,
    # Of asyncio's and zmq's own making, in libraries that run the kernel.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

FOLDER = Path(__file__).parents[1] / "notebooks"
QUICK = {
    "profile_rpc": "REPEAT = 2",
    "tune_udf": 'BUDGET, MAX_BLOCKS = "30s", 2',
    "batch_cartpole": (
        'OBSERVERS, ROUNDS = [1, 2], 1\nBUDGET, MAX_BLOCKS = "60s", 2\nLEARN_FOR = "0.5s"\n'
        'SPACE = {"observer.num_worker_threads": [2]}'
    ),
    "parameter_server": (
        'TRAINERS, ROUNDS = [1, 2], 1\nBUDGET, MAX_BLOCKS = "60s", 2\n'
        'SPACE = {"server.num_worker_threads": [2]}'
    ),
}
MOST_BYTES = 400_000


def notebook(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


def test_all_notebooks_are_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_a_notebook_runs(name: str) -> None:
    found = notebook(name)
    (parameters,) = [c for c in found.cells if "parameters" in c.metadata.get("tags", [])]
    parameters.source = QUICK[name]
    client = NotebookClient(found, timeout=120, resources={"metadata": {"path": str(FOLDER)}})
    client.execute()


@pytest.mark.parametrize("name", QUICK)
def test_what_a_notebook_shows_is_kept_with_it(name: str) -> None:
    path = FOLDER / f"{name}.ipynb"
    text = path.read_text()
    assert len(text) < MOST_BYTES
    assert str(FOLDER.parent) not in text
    code = [cell for cell in notebook(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert json.loads(text)["metadata"]["kernelspec"]["name"] == "python3"
