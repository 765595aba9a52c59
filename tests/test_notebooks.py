"""Every notebook runs, in little time; what is kept of its outputs is small and free of errors."""

import asyncio
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
    "profile_rpc": "REPEAT = 1",
    "tune_udf": 'BUDGET, MAX_BLOCKS = "120s", 1',
    "batch_cartpole": (
        'OBSERVERS, ROUNDS = [1, 2], 1\nBUDGET, MAX_BLOCKS = "120s", 1\nLEARN_FOR = "0.2s"\n'
        'SPACE = {"observer.num_worker_threads": [2]}'
    ),
    "parameter_server": (
        'TRAINERS, ROUNDS = [1], 1\nBUDGET, MAX_BLOCKS = "120s", 1\n'
        'SPACE = {"server.num_worker_threads": [2]}'
    ),
}
MOST_BYTES = 400_000


def notebook(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


def test_all_notebooks_are_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(QUICK)


async def execute(name: str) -> None:
    found = notebook(name)
    (parameters,) = [c for c in found.cells if "parameters" in c.metadata.get("tags", [])]
    parameters.source = QUICK[name]
    client = NotebookClient(found, timeout=240, resources={"metadata": {"path": str(FOLDER)}})
    await client.async_execute()


@pytest.fixture(scope="module")
def errors() -> dict[str, BaseException | None]:
    """What each notebook ended with; all run at the same time, since no test looks at times."""

    async def execute_all() -> list[BaseException | None]:
        return await asyncio.gather(*map(execute, QUICK), return_exceptions=True)

    return dict(zip(QUICK, asyncio.run(execute_all()), strict=True))


@pytest.mark.parametrize("name", QUICK)
def test_a_notebook_runs(name: str, errors: dict[str, BaseException | None]) -> None:
    if (error := errors[name]) is not None:
        raise error


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
