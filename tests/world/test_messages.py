"""What ranks of workloads may send, and what is made of the rest."""

import math
from typing import Any

import pytest

from tuner.world.messages import of_warm_server, of_workload_rank

OF_ALL = {"pid": 1, "time_ns": 2}
SENT: list[dict[str, Any]] = [
    {"kind": "phase", "phase": "setup"},
    {"kind": "state", "steps_done": 3, "pool_size": None, "idle": None, "serving": 0, "calling": 1,
     "waiting": 0},
    {"kind": "result", "step_s": [0.1], "steps": 1, "wall_s": 0.1, "cpu_s": [0.2, 0.0],
     "tracing_overhead": None},
    {"kind": "failed", "phase": "step", "failure": "crashed", "error": "\0\U0001f600" * 10**5,
     "traceback": ""},
    {"kind": "finished", "threads": 20, "peak_rss_mb": 210.5},
]  # fmt: skip


@pytest.mark.parametrize("sent", SENT, ids=[each["kind"] for each in SENT])
def test_what_a_rank_sends_is_taken_as_it_is(sent: dict[str, Any]) -> None:
    assert of_workload_rank({**sent, **OF_ALL, "more": 1}) == {**sent, **OF_ALL}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("state", {"waiting": -1}), ("result", {"cpu_s": [-0.5]}), ("result", {"wall_s": math.nan}),
     ("failed", {"failure": "nonsense"}), ("finished", {"threads": -1}),
     ("phase", {"time_ns": "now"})],
)  # fmt: skip
def test_wrong_values_are_a_failure_of_the_rank(kind: str, value: dict[str, Any]) -> None:
    (sent,) = (each for each in SENT if each["kind"] == kind)
    found = of_workload_rank({**sent, **OF_ALL, **value})
    assert found is not None
    assert (found["kind"], found["failure"]) == ("failed", "crashed")
    assert repr(kind) in found["error"]
    assert of_workload_rank(found) == found


@pytest.mark.parametrize(
    "sent",
    [None, [], {}, {"kind": []}, {**OF_ALL, "kind": "gone", "code": 1},
     {**OF_ALL, "kind": "window-end"}],
)  # fmt: skip
def test_what_is_no_message_of_a_rank_is_left_out(sent: object) -> None:
    assert of_workload_rank(sent) is None


def test_a_server_of_warm_starts_reports_its_imports_and_its_processes() -> None:
    preloaded: dict[str, Any] = {"kind": "preloaded", "unfit": None, "left_out": {"m": "a thread"},
                                 "changed": {"A": "1=2"}}  # fmt: skip
    for sent in (preloaded, {"kind": "forked"}, {"kind": "gone", "code": -9}):
        assert of_warm_server({**sent, **OF_ALL}) == {**sent, **OF_ALL}
    wrong = [{**preloaded, "left_out": {"m": 1}}, {"kind": "gone", "code": "0"}, SENT[0]]
    assert [of_warm_server({**sent, **OF_ALL}) for sent in wrong] == [None] * 3
