"""The pages that are made of the code."""

import inspect
import re
from pathlib import Path

import pytest

import tuner
from docs_site.reference import GIVEN, api_page, registries_page, without_docstring

FOREIGN = {"DataFrame", "TensorPipeRpcBackendOptions"}


def test_a_public_name_without_a_place_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "__all__", [*tuner.__all__, "forgotten"])
    with pytest.raises(ValueError, match="differ: forgotten"):
        api_page()


def test_a_field_without_a_docstring_fails(tmp_path: Path) -> None:
    package = tmp_path / "workloads"
    package.mkdir()
    (package / "__init__.py").write_text(
        'class Rank:\n    "A process."\n    name: str\n    role: str\n    "Its role."\n'
        "    def go(self): pass\n    _own: int = 1\n\ndef made(): pass\n"
    )
    names = ["workloads.Rank", "workloads.made"]
    found = [*without_docstring(names, tmp_path)]
    assert found == ["workloads.Rank.name", "workloads.Rank.go", "workloads.made"]


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
