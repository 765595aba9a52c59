"""Which observations a study has, in its storage and beside it: what may not be lost or doubled."""

from collections.abc import Mapping
from pathlib import Path

from tuner.errors import UsageError
from tuner.study.records import Record
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.study.write_ahead_log import WriteAheadLog

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
