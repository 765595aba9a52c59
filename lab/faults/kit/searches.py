"""Searches that faults are done to: how they are asked for, and what they must leave."""

from collections.abc import Mapping
from pathlib import Path

import optuna

from lab.faults.kit.commands import Ended, Running, folder_mb
from lab.faults.kit.rows import Outcome
from tuner.errors import UsageError
from tuner.study.records import Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.write_ahead_log import WriteAheadLog

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

Key = tuple[int, int, bool]


def kept(out: Path, name: str, storage: str | None = None) -> Mapping[Key, Record]:
    """Every observation by its trial, its block, and whether it is the baseline's second.

    AssertionError if one is there twice.
    """
    place = StudyPlace.named(name, storage=storage, out=out)
    try:
        records = load_study(place).records()
    except UsageError:
        # Killed while it was made.
        records = []
    found = {_key(each): each for each in records}
    assert len(found) == len(records), "an observation is there twice"
    beside = WriteAheadLog(place.folder, name).read()
    return {**{_key(each): each for each in beside}, **found}


def lost(before: Mapping[Key, Record], after: Mapping[Key, Record]) -> int:
    """How many observations are there no more, or are others now."""
    return sum(after.get(key) != record for key, record in before.items())


def _key(record: Record) -> Key:
    return record.trial, record.block, record.again


def observations(folder: Path) -> list[tuple[int, int]]:
    """The trial and the block of every observation in a study; none while it is being created."""
    if not (folder / "study.db").exists():
        return []
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.load_study(study_name="udf", storage=f"sqlite:///{folder}/study.db")
        return [(each.number, block) for each in study.trials for block in each.intermediate_values]
    except Exception:
        return []


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
    return running.awaits(lambda: len(observations(folder)) >= least, PATIENCE_S)
