"""Virtual environments for what a benchmark needs and nobody else: ignored by Git."""

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

HERE = Path(__file__).parent
VENVS = HERE.parents[1] / ".bench-venv"


def installed_python(name: str, *, beside_ours: bool = False) -> Path | None:
    """An interpreter with what `NAME-constraints.txt` pins, installed if necessary.

    `beside_ours` gives it what is installed here too, such as PyTorch. None if it could not be
    installed, which is told.
    """
    pins, folder = HERE / f"{name}-constraints.txt", VENVS / name
    python, installed = folder / "bin" / "python", folder / "installed.txt"
    if installed.is_file() and installed.read_text() == pins.read_text():
        return python
    try:
        venv.create(folder, clear=True, with_pip=True)
        (VENVS / ".gitignore").write_text("*\n")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--requirement"]
        subprocess.run([*pip, str(pins)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name} could not be installed: {error}", file=sys.stderr)
        return None
    if beside_ours:
        [site] = folder.glob("lib/python*/site-packages")
        (site / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    installed.write_text(pins.read_text())
    return python
