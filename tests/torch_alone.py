"""An environment as a rank may have it: torch, what torch itself needs, and this package."""

import re
import subprocess
import sys
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def torch_alone(folder: Path) -> Path:
    """The interpreter of a new environment in `folder`, as `pip install --no-deps` leaves it."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = folder / SITE
    # torch does not require NumPy, but its `init_rpc` does.
    for name in _required_by("torch") | {"numpy"}:
        for top in _tops(name):
            if top.exists() and not (site / top.name).exists():
                (site / top.name).symlink_to(top)
    for package in ("tuner", "workloads"):
        (site / package).symlink_to(ROOT / package)
    for metadata in _our_metadata():
        (site / metadata.name).symlink_to(metadata)
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


def _our_metadata() -> list[Path]:
    # From the root, `distribution` finds the egg-info there, which the installation leaves.
    found = {Path(str(each.locate_file(""))) for each in distributions(name="rpc-tuner")}
    return [path for site in found for path in site.glob("rpc_tuner-*.dist-info")]


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
