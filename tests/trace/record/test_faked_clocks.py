"""A trace of hosts whose clocks differ by 5 s and drift by 200 ppm: libfaketime changes one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trace.record import faked_clock_rank
from tuner.trace.files.reader import read_trace
from tuner.trace.model.trace import Trace
from tuner.trace.record.clock import HOST_VARIABLE

pytestmark = [pytest.mark.world, pytest.mark.thorough]

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
AHEAD_S = 5.0


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The trace of a world whose second rank is ahead, and goes faster."""
    if not LIBRARIES:
        pytest.skip("there is no libfaketime to change a clock with: make faketime installs it")
    folder = tmp_path_factory.mktemp("clocks")
    here = {"PYTHONPATH": str(Path(__file__).parents[3])}
    common = {**os.environ, **here, "TP_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    faked = {
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME": f"+{AHEAD_S:g}s x1.0002",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, faked_clock_rank.__file__, str(rank), str(folder / "store"),
             str(folder / "trace.json")],
            env={**common, HOST_VARIABLE: f"host{rank}", **(faked if rank else {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        printed, said = ranks[0].communicate(timeout=200)
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert ranks[0].returncode == 0, said
    # Or the clocks would be alike, and nothing below would be shown.
    assert abs(float(printed.split()[-1]) - AHEAD_S) < 1
    return read_trace(folder / "trace.json")


def test_all_spans_are_on_one_clock(traced: Trace) -> None:
    error_ns = traced.clock_error_ns
    # 200 calls of 5 ms drift by 200 us at least; a machine that does other things adds to it.
    assert 0 < error_ns < 0.1e9
    calls = traced.calls
    assert len(calls) == 200
    assert (calls["server_start_ns"] >= calls["start_ns"] - error_ns).all()
    assert (calls["server_end_ns"] <= calls["end_ns"] + error_ns).all()
    lasted_ns = int(calls["end_ns"].max() - calls["start_ns"].min())
    # The bounds before and after differ by the drift, of which the half-width is half.
    assert error_ns >= 0.8 * lasted_ns * 200e-6 / 2
