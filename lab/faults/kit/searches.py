"""Searches that faults are done to: how they are asked for, and what they must leave."""

from pathlib import Path

import optuna

from lab.faults.kit.commands import Ended, Running, folder_mb
from lab.faults.kit.rows import Outcome

HOSTILE = Path(__file__).parent / "hostile_workloads.py"
SEARCH = (
    "tuner.search", "--workload", "udf", "--set", "size=50", "--space", "num_worker_threads=2,4",
    "--min-time", "0.05s", "--out", "study",
)  # fmt: skip
LONG = (*SEARCH, "--budget", "10m", "--max-blocks", "300")
SHORT = (*SEARCH, "--budget", "10m", "--max-blocks", "2")
MOST_MB, MOST_COMMAND_MB = 20.0, 500.0
# Of a machine that does something else meanwhile.
PATIENCE_S = 240.0


def observations(folder: Path) -> list[tuple[int, int]]:
    """Every observation in the study: its trial and its block."""
    if not (folder / "study.db").exists():
        return []
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name="udf", storage=f"sqlite:///{folder}/study.db")
    return [(trial.number, block) for trial in study.trials for block in trial.intermediate_values]


def outcome_of(ended: Ended, folder: Path, told: str, survived: bool, lost: int = 0) -> Outcome:
    """What is told of a search: it fails, too, if it shows a traceback or takes too much room."""
    size = folder_mb(folder)
    is_small = size <= MOST_MB and ended.peak_rss_mb <= MOST_COMMAND_MB
    more = f"; folder {size:.1f} MB, command {ended.peak_rss_mb:.0f} MB"
    if ended.has_traceback:
        more += f"; a traceback was shown, which ends with {ended.stderr.strip()[-1500:]}"
    if ended.left:
        more += f"; left {[*ended.left_processes, *ended.left_files][:3]}"
    is_good = survived and is_small and not ended.has_traceback
    return Outcome(told=told + more, survived=is_good, lost=lost, left=ended.left)


def measuring(running: Running, folder: Path, least: int = 2) -> bool:
    """Wait until some worlds are in the study."""

    def some() -> bool:
        try:
            return len(observations(folder)) >= least
        except Exception:
            return False  # it is being created just now

    return running.awaits(some, PATIENCE_S)
