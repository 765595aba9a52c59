"""What is installed is all there is."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import tuner

ROOT = Path(__file__).parents[1]


def test_every_package_is_installed() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    there = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for top in ("tuner", "workloads")
        for path in (ROOT / top).rglob("__init__.py")
    }
    # The plans are data, in a folder of another name.
    assert there | {"tuner.shipped"} == set(document["tool"]["setuptools"]["packages"])


def test_the_public_names_are_what_they_say_however_often_they_are_asked_for() -> None:
    """A module of the same name would take the function's place as it is imported."""
    for name in tuner.__all__:
        first = getattr(tuner, name)
        assert callable(first)
        assert getattr(tuner, name) is first


def test_every_package_that_is_imported_is_declared() -> None:
    """A dependency of a dependency may go with its next version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    required = project["dependencies"] + [
        each for extra in ("cartpole", "notebooks", "postgresql", "ray") for each in extras[extra]
    ]
    declared = {normalised(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in required}
    distributions = packages_distributions()
    imported = {
        module
        for top in ("tuner", "workloads")
        for path in (ROOT / top).rglob("*.py")
        for module in top_level_imports(path)
    } - {*sys.stdlib_module_names, "tuner", "workloads", "_typeshed"}
    names = {each: {*map(normalised, distributions.get(each, [each]))} for each in imported}
    assert [module for module, found in names.items() if not declared & found] == []


def top_level_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
