"""The pages that are made of the code."""

import inspect
import re

import tuner
from docs_site.reference import GIVEN, registries_page

FOREIGN = {"DataFrame", "TensorPipeRpcBackendOptions"}


def test_what_a_public_function_gives_is_on_the_page() -> None:
    there = {path.rpartition(".")[2] for path in GIVEN} | FOREIGN
    functions = [getattr(tuner, name) for name in tuner.__all__ if name.islower()]
    given = {
        name
        for function in functions
        for name in re.findall(r"\b[A-Z]\w+", str(inspect.signature(function).return_annotation))
    }
    assert given <= there


def test_every_row_has_all_its_cells() -> None:
    rows = [line for line in registries_page().splitlines() if line.startswith("| `")]
    assert {line.count(" | ") for line in rows} == {3, 4}
    assert not any("|  |" in line for line in rows)
