"""What is installed is all there is."""

import tomllib
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
