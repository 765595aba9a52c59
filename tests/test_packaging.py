"""What is installed is all there is."""

import tomllib
from pathlib import Path

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
