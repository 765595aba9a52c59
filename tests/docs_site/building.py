"""Builds the documentation site as `make docs` does."""

import os
import subprocess
import sys
from pathlib import Path

from docs_site.pages import ROOT


def build(folder: Path) -> None:
    """Build the site into a folder; strictly, so that a warning fails it."""
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert build.returncode == 0, build.stdout
