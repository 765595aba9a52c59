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
    orders = [str((order.subject, order.config)) for order in launcher.orders]
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


def test_where_every_world_fails_the_frame_has_its_columns() -> None:
    frame = swept(FakeLauncher(fails=lambda s, world: "crashed"), rounds=1)
    assert list(frame.columns) == [
        "calls", "size", "config", "round", "step_ms", "cpu_cores", "peak_rss_mb", "failure",
    ]  # fmt: skip
    assert len(frame) == 8
    assert frame[["step_ms", "cpu_cores", "peak_rss_mb"]].isna().all(axis=None)
    assert frame["step_ms"].dtype.kind == "f"
    assert frame["failure"].eq("crashed: worker1 failed first").all()


def test_without_options_the_workload_is_measured_as_it_is() -> None:
    frame = swept(FakeLauncher(), options={}, rounds=2)
    assert frame[["config", "round"]].to_numpy().tolist() == [
        ["default", 0], ["default", 1], ["two", 0], ["two", 1],
    ]  # fmt: skip


def test_all_mistakes_are_told_together() -> None:
    launcher = FakeLauncher()
    with pytest.raises(UsageError) as caught:
        swept(launcher, options={"calls": [], "round": [1]}, config={}, rounds=0)
    assert caught.value.problems == (
        "option calls: its list of values is empty",
        "option round: the frame has a column of this name",
        "config: it names no configuration; leave it out for PyTorch's defaults",
        "rounds must be at least 1, got 0",
    )
    assert launcher.orders == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "the sweep: rounds must be at least 1, got 0"),
        ({"options": {"calls": []}}, "the sweep: option calls: its list of values is empty"),
        ({"options": {"colour": ["red"]}}, "unknown option 'colour'"),
        ({"config": {"two": {"*": {"threads": 2}}}}, "config 'two': .*unknown knob 'threads'"),
        ({"min_time": "soon"}, "min_time must be a duration"),
        ({"deadline": "0s"}, "deadline must be longer than zero"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        swept(FakeLauncher(), **changes)
