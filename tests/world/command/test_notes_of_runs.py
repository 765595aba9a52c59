"""What a person is told of the ranks of a program that was run with a configuration."""

from pathlib import Path
from typing import Any

import pytest

from tests.world.command.reported import BEGAN_NS, NAMES, PIDS, report_of, until
from tuner.plan.config import Config
from tuner.world.command.running import RunEnd

Event = dict[str, Any]
FAILED = {"event": "init-failed", "pid": PIDS[0], "time_ns": BEGAN_NS + 10**9, "name": NAMES[0],
          "rank": 0, "error": "Address already in use", "traceback": ""}  # fmt: skip


def of_three(rank: int, last: str) -> list[Event]:
    """A rank of a world of three that nothing is wrong with."""
    events = [event for event in until(rank, last) if event["event"] != "hook-failed"]
    return [event | ({"world_size": 3} if "world_size" in event else {}) for event in events]


@pytest.mark.parametrize(
    ("processes", "told"),
    [
        # One that starts a rank each: others have started the rest.
        ([of_three(0, "ended")], []),
        (
            [of_three(0, "ended"), of_three(1, "ended")],
            ["this command knows nothing of rank 2: another command may have started it; if this "
             "one did, it runs without the configuration, and the hook did not reach it: it "],
        ),
        (
            [[*of_three(0, "rendezvous"), FAILED], of_three(1, "init_rpc")],
            ["agent failed first, in init_rpc: Address already in use"],
        ),
        (
            [of_three(0, "rendezvous"), of_three(1, "rendezvous")],
            ["ranks 0 and 1 wait in init_rpc for rank 2 at env://"],
        ),
        (
            [[*of_three(0, "ready"), {**of_three(0, "shutdown")[-1], "overridden": "its own"}]],
            ["agent: its own"],
        ),
    ],
)  # fmt: skip
def test_ranks_that_may_run_without_it(
    tmp_path: Path, processes: list[list[Event]], told: list[str]
) -> None:
    notes = RunEnd(0, report_of(tmp_path, *processes)).notes
    assert [note[: len(each)] for note, each in zip(notes, told, strict=True)] == told


def test_a_role_that_no_rank_has(tmp_path: Path) -> None:
    end = RunEnd(0, report_of(tmp_path, until(0, "ended"), until(1, "ended")))
    config = {"observers": {"num_worker_threads": 2}, "agent": {"rpc_timeout": 20.0}}
    assert end.unused(Config.from_json(config)) == [
        "no rank has the role 'observers', so what is set for it was not used; did you mean "
        "observer?"
    ]
