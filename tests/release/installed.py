"""The package as pip installs it, in a folder where no clone of it can be imported, with the tests.

`python -m tests.release.installed` makes the folder `build/installed`, whose `venv/bin/python` has
the wheel of what is here, and all else that this interpreter has.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "installed"
WITHOUT = ("tuner", "workloads", "build", "dist")
"""What is not beside the package there: itself, and what is built."""


def main() -> None:
    """Make it anew; ends with an error if what would be tested is not the wheel."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)  # of an earlier state
    FOLDER.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip"]
    _run(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(FOLDER / "dist"), str(ROOT))
    (wheel,) = (FOLDER / "dist").iterdir()
    venv.create(FOLDER / "venv", symlinks=True)
    python = str(FOLDER / "venv" / "bin" / "python")
    _run(*pip, "--python", python, "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    [site] = (FOLDER / "venv").glob("lib/python*/site-packages")
    # Of these folders Python does not read what makes an editable install.
    others = [each for each in sys.path if Path(each).name in ("site-packages", "dist-packages")]
    (site / "others.pth").write_text("".join(f"{other}\n" for other in others))
    # What npm has put there.
    (FOLDER / "venv" / "node_modules").symlink_to(Path(sys.prefix) / "node_modules")
    for each in [*ROOT.glob("[!.]*"), ROOT / ".github"]:
        if each.name not in WITHOUT and each.suffix != ".egg-info":
            copy = shutil.copytree if each.is_dir() else shutil.copy
            copy(each, FOLDER / each.name)
    where = "import tuner, workloads; print(tuner.__file__, workloads.__file__)"
    found = _run(python, "-c", where).split()
    if [Path(each).parents[1] for each in found] != [site, site]:
        raise SystemExit(f"the tests would not be of the wheel: {' and '.join(found)}")


def _run(*command: str) -> str:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=FOLDER, env=kept, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


if __name__ == "__main__":
    main()
