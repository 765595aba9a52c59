"""Sweeps on the fake launcher."""

from typing import Any

import pandas as pd
import pytest

from testing.fakes import FakeLauncher, threads_of
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.searching.sweeping import sweep

TWO = Config.from_json({"*": {"num_worker_threads": 2}})
KEYS = ["calls", "size", "config", "round"]
NUMBERS = ["step_ms", "cpu_cores", "peak_rss_mb"]


def swept(launcher: FakeLauncher, **changes: Any) -> pd.DataFrame:
    options, config = {"calls": [1, 4], "size": [10, 20]}, {"default": {}, "two": TWO}
    return sweep("udf", **{"options": options, "config": config, **changes}, launcher=launcher)


def test_every_combination_is_run_once_in_each_round_in_an_order_of_its_own() -> None:
    launcher = FakeLauncher(step_ms=lambda s: 8.0 / threads_of(s))
    frame = swept(launcher)
    assert len(frame) == 2 * 2 * 2 * 3
    assert not frame.duplicated(KEYS).any()
    assert frame[KEYS].equals(frame[KEYS].sort_values(KEYS, ignore_index=True))
    assert frame.groupby("config")["step_ms"].unique().to_dict() == {"default": [0.5], "two": [4]}
    assert (frame["failure"] == "").all()
    assert frame["cpu_cores"].eq(2.0).all()
    orders = [str((order.subject, order.config)) for order in launcher.orders]
    rounds = [orders[first : first + 8] for first in (0, 8, 16)]
    assert sorted(rounds[0]) == sorted(rounds[1]) == sorted(rounds[2])
    assert not rounds[0] == rounds[1] == rounds[2]
    assert [order.seed for order in launcher.orders] == [0] * 8 + [1] * 8 + [2] * 8


@pytest.mark.parametrize("failing", [{"two"}, {"default", "two"}])
def test_a_failure_is_a_row_and_the_frame_has_its_columns(failing: set[str]) -> None:
    launcher = FakeLauncher(
        fails=lambda s, world: "crashed" if {"two" if s.items else "default"} <= failing else None
    )
    frame = swept(launcher, rounds=1)
    assert list(frame.columns) == [*KEYS, *NUMBERS, "failure"]
    assert frame["step_ms"].dtype.kind == "f"
    out = frame[frame["config"].isin(failing)]
    assert out["failure"].eq("crashed: worker1 failed first").all()
    assert out[NUMBERS].isna().all(axis=None)
    assert frame.drop(out.index)["step_ms"].notna().all()
    assert len(frame) == 8


def test_without_options_the_workload_is_measured_as_it_is() -> None:
    found = swept(FakeLauncher(), options={}, rounds=2)[["config", "round"]].to_numpy().tolist()
    assert found == [["default", 0], ["default", 1], ["two", 0], ["two", 1]]


def test_all_mistakes_are_told_together() -> None:
    launcher = FakeLauncher()
    with pytest.raises(UsageError, match="the sweep: ") as caught:
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
        ({"config": {"two": {"*": {"threads": 2}}}}, "config 'two': .*unknown knob 'threads'"),
        ({"min_time": "soon"}, "min_time must be a duration"),
        ({"deadline": "0s"}, "deadline must be longer than zero"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        swept(FakeLauncher(), **changes)
