"""An environment as a rank may have it: torch, what torch itself needs, and this package."""

import re
import shutil
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def torch_alone(folder: Path) -> Path:
    """The interpreter of a new environment in `folder`, in which pip has installed this package
    with `--no-deps`."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = folder / SITE
    # torch does not require NumPy, but its `init_rpc` does.
    for name in _required_by("torch") | {"numpy"}:
        for top in _tops(name):
            if top.exists() and not (site / top.name).exists():
                (site / top.name).symlink_to(top)
    _install(site, folder / "source")
    return folder / "bin" / "python"


def _required_by(name: str, seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """The distribution and all that it requires, extras and other systems' needs left out."""
    if name in seen:
        return seen
    seen |= {name}
    for requirement in distribution(name).requires or []:
        wanted, _, condition = requirement.partition(";")
        if "extra" in condition or "platform_" in condition or "python_version" in condition:
            continue
        seen = _required_by(re.split(r"[^\w.-]", wanted.strip(), maxsplit=1)[0], seen)
    return seen


def _tops(name: str) -> set[Path]:
    found = distribution(name)
    parts = {Path(file).parts[0] for file in found.files or [] if ".." not in Path(file).parts}
    return {Path(str(found.locate_file(part))) for part in parts - {"__pycache__"}}


def _install(site: Path, source: Path) -> None:
    source.mkdir()  # A copy: a build leaves files beside what it builds.
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for package in ("tuner", "workloads"):
        shutil.copytree(ROOT / package, source / package)
    # Its folders are what searches have left here.
    plans = [path for path in (ROOT / "studies").iterdir() if path.is_file()]
    (source / "studies").mkdir()
    for plan in plans:
        shutil.copy(plan, source / "studies")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--no-deps", "--target", str(site), str(source)], check=True, timeout=120)


def run_in(python: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the environment's interpreter, with nothing of this process's paths."""
    names = {"TP_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "localhost"}
    return subprocess.run(
        [str(python), "-W", "ignore", *arguments],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **names, **variables},
        timeout=200,
    )
