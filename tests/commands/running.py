"""The search command, in a process of its own as a person runs it, or in this one; or a fake."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from testing.fakes import FakeLauncher
from tests.conftest import signals_restored
from tests.searching.tuning import scaling
from tuner import search
from tuner.api import tune
from tuner.present.study_result import StudyResult

ROOT = Path(__file__).parents[2]

SLOW = {
    "torch", "optuna", "optuna_dashboard", "matplotlib", "pandas", "scipy", "numpy", "sqlalchemy"
}  # fmt: skip

Done = subprocess.CompletedProcess[str]


def environment(**more: str) -> dict[str, str]:
    """With this tree's packages, and with the agents on loopback alone."""
    names = {"TP_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    return {**os.environ, **names, **more}


def printed_by(code: str, *arguments: str) -> Done:
    """What a process of its own prints; its last line is what it has imported of SLOW."""
    code = f"import sys\nimport tuner.__main__\n{code}\nprint(sorted({SLOW!r} & {{*sys.modules}}))"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True,
        env=environment(),
    )  # fmt: skip


def started(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """A search in a new process, whose output is piped line by line."""
    return subprocess.Popen(
        [sys.executable, "-m", "tuner.search", *arguments], text=True, cwd=cwd,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(PYTHONUNBUFFERED="1"),
    )  # fmt: skip


def in_new_process(*arguments: str, cwd: Path) -> Done:
    with started(*arguments, cwd=cwd) as running:
        try:
            out, err = running.communicate(timeout=400)
        finally:
            running.kill()
    return Done(arguments, running.returncode, out, err)


def in_this_process(*arguments: str, cwd: Path) -> Done:
    """Faster: nothing is imported again, and all searches share one forkserver.

    What the processes of the worlds print themselves is not in the result.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        signals_restored(),
    ):
        code = search.main(list(arguments))
    for stream in (out, err):
        stream.seek(0)
    return Done(arguments, code, out.read(), err.read())


def searched(name: str, launcher: FakeLauncher | None = None, **changes: object) -> StudyResult:
    """A study of 4 threads beside the baseline's one, on a fake launcher."""
    launcher = launcher or FakeLauncher(step_ms=scaling)
    keys = {"budget": "30s", "max_blocks": 12, "space": {"num_worker_threads": [1, 4]},
            "baseline": {"num_worker_threads": 1}, **changes}  # fmt: skip
    return tune("udf", launcher=launcher, clock=launcher.clock, name=name, **keys)  # type: ignore[arg-type]
