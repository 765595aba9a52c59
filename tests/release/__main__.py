"""`make dist`: builds the sdist and the wheel, checks them, and searches with the wheel alone.

`python -m tests.release [TAG]`; with a tag, what is built must be that release.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import tuner

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
SEARCH = ("--workload", "udf", "--budget", "20s", "--space", "num_worker_threads=1,4")


def main(tags: list[str]) -> None:
    """Build, check, install and search; ends with an error at the first thing that is wrong."""
    faults = [
        fault for tag in tags for fault in faults_of_tag(tag, (ROOT / "CHANGELOG.md").read_text())
    ]
    if faults:
        raise SystemExit("; ".join(faults))
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    made = sorted(map(str, DIST.iterdir()))
    wheel = next(path for path in made if path.endswith(".whl"))
    _run(sys.executable, "-m", "twine", "check", "--strict", *made)
    _run(str(Path(sys.executable).with_name("check-wheel-contents")), wheel)
    with tempfile.TemporaryDirectory() as scratch:
        _search_with(wheel, Path(scratch))
    print("\n".join(made))


def faults_of_tag(tag: str, changelog: str) -> list[str]:
    """Why this tag is no release of what is here; empty where it is one."""
    version, faults = tuner.__version__, []
    if tag != f"v{version}":
        faults.append(f"the tag is {tag}, and tuner.__version__ is {version}")
    dated = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(dated, changelog, re.MULTILINE):
        faults.append(f"CHANGELOG.md has no heading ## {version} (YYYY-MM-DD)")
    return faults


def _search_with(wheel: str, scratch: Path) -> None:
    """Install the wheel into an empty venv, and search from an empty folder."""
    venv, empty = scratch / "venv", scratch / "empty"
    empty.mkdir()
    _run(sys.executable, "-m", "venv", str(venv))
    python = str(venv / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    _run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel)
    _run(str(venv / "bin" / "rpc-tuner"), "--version", where=empty)
    _run(python, "-m", "tuner.search", *SEARCH, where=empty)
    left = empty / "studies" / "udf"
    missing = [name for name in ("recommended.json", "report.html") if not (left / name).exists()]
    if missing:
        raise SystemExit(f"the installed wheel left no {' and no '.join(missing)}")


def _run(*command: str, where: Path | None = None) -> None:
    # What is installed is all there is: nothing comes from the checkout.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    subprocess.run(command, cwd=where, env=kept, check=True)


if __name__ == "__main__":
    main([tag for tag in sys.argv[1:] if tag])
