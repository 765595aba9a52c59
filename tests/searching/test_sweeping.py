"""Sweeps on the fake launcher."""

from typing import Any

import pandas as pd
import pytest

from tests.fakes import FakeLauncher, threads_of
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.searching.sweeping import sweep

TWO = {"*": {"num_worker_threads": 2}}


def swept(launcher: FakeLauncher, **changes: Any) -> pd.DataFrame:
    asked: dict[str, Any] = {
        "options": {"calls": [1, 4], "size": [10, 20]},
        "config": {"default": {}, "two": Config.from_json(TWO)},
        "rounds": 3,
        **changes,
    }
    return sweep("udf", **asked, launcher=launcher)


def test_every_combination_is_run_once_in_each_round() -> None:
    launcher = FakeLauncher(step_ms=lambda s: 8.0 / threads_of(s))
    frame = swept(launcher)
    keys = ["calls", "size", "config", "round"]
    assert len(frame) == 2 * 2 * 2 * 3
    assert not frame.duplicated(keys).any()
    assert frame[keys].equals(frame[keys].sort_values(keys, ignore_index=True))
    assert frame.groupby("config")["step_ms"].unique().to_dict() == {"default": [0.5], "two": [4]}
    assert (frame["failure"] == "").all()
    assert frame["cpu_cores"].eq(2.0).all()


def test_rounds_have_orders_and_seeds_of_their_own() -> None:
    launcher = FakeLauncher()
    swept(launcher)
    orders = [str((order.workload.options, order.config)) for order in launcher.orders]
    rounds = [orders[first : first + 8] for first in (0, 8, 16)]
    assert sorted(rounds[0]) == sorted(rounds[1]) == sorted(rounds[2])
    assert not rounds[0] == rounds[1] == rounds[2]
    assert [order.seed for order in launcher.orders] == [0] * 8 + [1] * 8 + [2] * 8


def test_a_failure_is_a_row() -> None:
    launcher = FakeLauncher(fails=lambda s, world: "deadlocked" if s.items else None)
    frame = swept(launcher, rounds=1)
    failed = frame[frame["config"] == "two"]
    assert failed["failure"].unique().tolist() == ["deadlocked: worker1 failed first"]
    assert failed["step_ms"].isna().all()
    assert frame[frame["config"] == "default"]["step_ms"].notna().all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"options": {"colour": ["red"]}}, "unknown option 'colour'"),
        ({"config": {"two": {"*": {"threads": 2}}}}, "config 'two': .*unknown knob 'threads'"),
        ({"min_time": "soon"}, "min_time must be a duration"),
        ({"deadline": "0s"}, "deadline must be longer than zero"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        swept(FakeLauncher(), **changes)
