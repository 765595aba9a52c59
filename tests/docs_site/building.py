"""Builds the documentation site as `make docs` does."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """The ended build of the site into a folder; strict, so that a warning fails it."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config),
         "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
