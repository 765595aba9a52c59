import ast
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from workloads import Workload, WorkloadError
from workloads.registry import SHIPPED, load_workload

ECHO = """
from workloads import Rank, Workload

class Echo(Workload):
    def ranks(self):
        return [Rank("worker0", "caller")]

    def step(self, world):
        pass

class Plain:
    pass

NUMBER = 1
"""


@pytest.fixture(autouse=True)
def _imports_are_forgotten() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def problem(reference: str) -> str:
    with pytest.raises(WorkloadError) as caught:
        load_workload(reference)
    (message,) = caught.value.problems
    return message


@pytest.mark.parametrize("reference", SHIPPED.values())
def test_a_shipped_workload_is_where_the_registry_says(reference: str) -> None:
    module, _, class_name = reference.partition(":")
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    # Read, not imported: the shipped workloads import torch, which takes seconds.
    tree = ast.parse(Path(spec.origin).read_text())
    assert class_name in [node.name for node in tree.body if isinstance(node, ast.ClassDef)]


def test_a_class_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "registry_echo.py"
    path.write_text(ECHO)
    found = load_workload(f"{path}:Echo")
    assert issubclass(found, Workload)
    # Served functions are found by this name in the other processes.
    assert found.__module__ == "registry_echo"
    assert sys.path[0] == str(tmp_path)


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    path = tmp_path / "registry_once.py"
    path.write_text(ECHO)
    assert load_workload(f"{path}:Echo") is load_workload(f"{path}:Echo")
    assert sys.path.count(str(tmp_path)) == 1


def test_a_file_may_be_named_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("registry_here.py").write_text(ECHO)
    assert load_workload("registry_here.py:Echo").__name__ == "Echo"


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "registry_helper.py").write_text(ECHO)
    path = tmp_path / "registry_main.py"
    path.write_text("from registry_helper import Echo\n")
    assert load_workload(f"{path}:Echo").__module__ == "registry_helper"


def test_a_class_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    package = tmp_path / "registry_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "loads.py").write_text(ECHO)
    assert load_workload("registry_package.loads:Echo").__name__ == "Echo"


HOW_TO_NAME = "your own is named package.module:Class or path/to/file.py:Class"


def test_an_unknown_workload_comes_with_the_nearest_and_all_of_them() -> None:
    known = ", ".join(SHIPPED)
    expected = f"unknown workload 'udff'; did you mean udf? Known: {known}; {HOW_TO_NAME}"
    assert problem("udff") == expected


@pytest.mark.parametrize("reference", ["zzz", ":Echo", "package.module:", ""])
def test_an_unknown_workload_that_is_near_none_is_reported(reference: str) -> None:
    known = ", ".join(SHIPPED)
    expected = f"unknown workload {reference!r}. Known: {known}; {HOW_TO_NAME}"
    assert problem(reference) == expected


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "nothing.py"
    assert problem(f"{path}:Echo") == f"there is no file {path}"


def test_a_module_that_is_not_there_is_reported() -> None:
    assert problem("no_such_module:Echo") == (
        "cannot import no_such_module: ModuleNotFoundError: No module named 'no_such_module'"
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [("1 / 0", "ZeroDivisionError: division by zero"), ("def", "SyntaxError: invalid syntax")],
)
def test_a_file_that_fails_on_import_is_reported(tmp_path: Path, source: str, reason: str) -> None:
    path = tmp_path / "registry_broken.py"
    path.write_text(source)
    assert problem(f"{path}:Echo").startswith(f"cannot import {path}: {reason}")


def test_a_file_named_like_another_module_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text(ECHO)
    expected = f"{path} cannot be imported: another module is named json"
    assert problem(f"{path}:Echo") == expected


def test_a_missing_class_comes_with_those_that_are_there(tmp_path: Path) -> None:
    path = tmp_path / "registry_missing.py"
    path.write_text(ECHO)
    assert problem(f"{path}:Ecco") == f"{path} has no class Ecco; it has Echo"
    assert problem(f"{path}:NUMBER") == f"{path} has no class NUMBER; it has Echo"


def test_a_module_without_workloads_has_none_to_offer() -> None:
    assert problem("json:Echo") == "json has no class Echo"


def test_a_class_that_is_no_workload_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "registry_plain.py"
    path.write_text(ECHO)
    assert problem(f"{path}:Plain") == f"{path}:Plain is not derived from workloads.Workload"


def test_a_package_that_ours_hides_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / "workloads"
    hidden.mkdir()
    (hidden / "helpers.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert problem("workloads.helpers:Echo") == (
        "cannot import workloads.helpers: ModuleNotFoundError: No module named "
        "'workloads.helpers'; rpc-tuner has a package workloads of its own, which hides "
        f"{hidden}: rename that one"
    )


def test_a_missing_module_of_ours_hides_nothing() -> None:
    assert problem("workloads.missing:Echo") == (
        "cannot import workloads.missing: ModuleNotFoundError: No module named 'workloads.missing'"
    )
