import shutil
import sys
from collections.abc import Iterator
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
KNOWN = (
    f"Known: {', '.join(SHIPPED)}; your own is named package.module:Class or path/to/file.py:Class"
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a folder with files; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    files = {
        "registry_echo.py": ECHO,
        "registry_main.py": "from registry_echo import Echo\n",
        "registry_package/__init__.py": "",
        "registry_package/loads.py": ECHO,
        "registry_zero.py": "1 / 0",
        "registry_syntax.py": "def",
        "json.py": ECHO,
        "workloads/helpers.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_a_file_is_imported_once_under_its_own_name(tmp_path: Path) -> None:
    found = load_workload(f"{tmp_path}/registry_echo.py:Echo")
    assert issubclass(found, Workload)
    # Served functions are found by this name in the other processes.
    assert found.__module__ == "registry_echo"
    assert sys.path[0] == str(tmp_path)
    assert load_workload(f"{tmp_path}/registry_echo.py:Echo") is found
    assert sys.path.count(str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("reference", "module"),
    [
        ("registry_echo.py:Echo", "registry_echo"),
        ("registry_main.py:Echo", "registry_echo"),  # a file may import its neighbours
        ("registry_package.loads:Echo", "registry_package.loads"),
    ],
)
def test_a_class_is_found_from_the_working_folder(reference: str, module: str) -> None:
    assert load_workload(reference).__module__ == module


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("udff", f"unknown workload 'udff'; did you mean udf? {KNOWN}"),
        *((each, f"unknown workload {each!r}. {KNOWN}")
          for each in ("zzz", ":Echo", "package.module:", "")),
        ("nothing.py:Echo", "there is no file nothing.py"),
        ("no_such_module:Echo", "cannot import no_such_module: ModuleNotFoundError: No module "
         "named 'no_such_module'"),
        ("registry_zero.py:Echo", "cannot import registry_zero.py: ZeroDivisionError: division by "
         "zero"),
        ("registry_syntax.py:Echo", "cannot import registry_syntax.py: SyntaxError: invalid "
         "syntax (registry_syntax.py, line 1)"),
        ("json.py:Echo", "json.py cannot be imported: another module is named json"),
        ("registry_echo.py:Ecco", "registry_echo.py has no class Ecco; it has Echo"),
        ("json:Echo", "json has no class Echo"),
        ("registry_echo.py:Plain", "registry_echo.py:Plain is not derived from workloads.Workload"),
        ("workloads.helpers:Echo", "cannot import workloads.helpers: ModuleNotFoundError: No "
         "module named 'workloads.helpers'; rpc-tuner has a package workloads of its own, which "
         "hides {here}/workloads: rename that one"),
        ("workloads.missing:Echo", "cannot import workloads.missing: ModuleNotFoundError: No "
         "module named 'workloads.missing'"),
    ],
)  # fmt: skip
def test_the_problem_of_a_reference_is_told(tmp_path: Path, reference: str, problem: str) -> None:
    if reference.startswith("workloads.missing"):
        shutil.rmtree("workloads")
    with pytest.raises(WorkloadError) as caught:
        load_workload(reference)
    assert caught.value.problems == (problem.format(here=tmp_path),)
