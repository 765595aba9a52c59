"""Every notebook runs, in little time; what is kept of its outputs is small and free of errors."""

import asyncio
import json
from collections.abc import Sequence
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
    "tune_udf": 'BUDGET, MAX_BLOCKS = "20m", 1',
    "batch_cartpole": (
        'OBSERVERS, ROUNDS = [1, 2], 1\nBUDGET, MAX_BLOCKS = "20m", 1\nLEARN_FOR = "0.2s"\n'
        'SPACE = {"observer.num_worker_threads": [2]}'
    ),
    "parameter_server": (
        'TRAINERS, ROUNDS = [1], 1\nBUDGET, MAX_BLOCKS = "20m", 1\n'
        'SPACE = {"server.num_worker_threads": [2]}'
    ),
}
# The reports of the searches are not drawn: they are not looked at here.
BEFORE = "import tuner.api\ntuner.api.write_study_report = lambda answer: None\n%reset -f\n"
KERNELS = (("batch_cartpole",), ("parameter_server", "profile_rpc", "tune_udf"))
MOST_BYTES = 400_000


def notebook(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


async def execute(client: NotebookClient, name: str) -> None:
    client.nb = notebook(name)
    (parameters,) = [c for c in client.nb.cells if "parameters" in c.metadata.get("tags", [])]
    parameters.source = QUICK[name]
    client.nb.cells.insert(0, nbformat.v4.new_code_cell(BEFORE))  # type: ignore[no-untyped-call]
    for index, cell in enumerate(client.nb.cells):
        await client.async_execute_cell(cell, index)


@pytest.fixture(scope="module")
def errors() -> dict[str, Exception | None]:
    """What each notebook ended with.

    A kernel runs several, each in an empty namespace: imports, and the processes that worlds come
    from, take longer than what they do. The kernels run at the same time: no test looks at times.
    """
    ended: dict[str, Exception | None] = {}

    async def execute_each(names: Sequence[str]) -> None:
        resources = {"metadata": {"path": str(FOLDER)}}
        client = NotebookClient(notebook(names[0]), timeout=900, resources=resources)
        async with client.async_setup_kernel():
            for name in names:
                ended[name] = None
                try:
                    await execute(client, name)
                except Exception as error:
                    ended[name] = error

    async def execute_all() -> None:
        await asyncio.gather(*map(execute_each, KERNELS))

    asyncio.run(execute_all())
    return ended


@pytest.mark.parametrize("name", QUICK)
def test_a_notebook_runs(name: str, errors: dict[str, Exception | None]) -> None:
    if (error := errors[name]) is not None:
        raise error


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.ipynb")))
def test_what_a_notebook_shows_is_kept_with_it(name: str) -> None:
    assert name in QUICK
    path = FOLDER / f"{name}.ipynb"
    text = path.read_text()
    assert len(text) < MOST_BYTES
    assert str(FOLDER.parent) not in text
    code = [cell for cell in notebook(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert json.loads(text)["metadata"]["kernelspec"]["name"] == "python3"
