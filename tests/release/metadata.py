"""What a release says of itself: its version, and the heading of its changes."""

import re
import tomllib
from pathlib import Path
from typing import Any

import tuner

ROOT = Path(__file__).parents[2]
VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?")
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


def project() -> dict[str, Any]:
    """The document pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def changed_versions(changelog: str) -> list[str]:
    """The headings of the change log, without the dates: `0.3.0`, `0.2.0`."""
    return [heading.partition(" (")[0] for heading in HEADING.findall(changelog)]


def faults_of_tag(tag: str, changelog: str) -> list[str]:
    """Why this tag is no release of what is here; empty where it is one."""
    faults = []
    if tag != f"v{tuner.__version__}":
        faults.append(f"the tag is {tag}, and tuner.__version__ is {tuner.__version__}")
    dated = rf"^## {re.escape(tuner.__version__)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(dated, changelog, re.MULTILINE):
        faults.append(f"CHANGELOG.md has no heading ## {tuner.__version__} (YYYY-MM-DD)")
    return faults
