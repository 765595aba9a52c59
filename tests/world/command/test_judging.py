from dataclasses import replace

import pytest

from testing.known import known
from testing.outcomes import failed, measured
from tests.world.command.reported import BEGAN_NS, events_of, report_of, until
from tuner.plan.objectives import OBJECTIVES
from tuner.plan.program_request import ProgramRequest
from tuner.world.command.ends import Cause
from tuner.world.command.judging import ProgramEnd, outcome_of, records_of
from tuner.world.command.reports import ProgramReport

REQUEST = ProgramRequest(commands=(("python", "main.py"),))
END = ProgramEnd(
    exit_codes=(1,), run_s=2.0, output="", report=ProgramReport(ranks=(), processes=0, problems=()),
    states=(),
)  # fmt: skip
WARNING = "[W1123 17:00:00.123456789 ProcessGroupGloo.cpp:516] Warning: Unable to resolve hostname"


PYTHONS = "/venv/lib/torch/distributed/c10d.py:3500: UserWarning: This usage is deprecated"


@pytest.mark.parametrize("warning", [WARNING, f"[rank0]:{WARNING}", WARNING[1:], PYTHONS])
def test_warnings_of_torch_do_not_hide_what_a_program_says(warning: str) -> None:
    """They are told where there is nothing else."""
    output = f"loading\n{warning}\n\nValueError: no such file\n{warning}\n"
    failure, alone = (
        failed(outcome_of(replace(END, output=each), REQUEST)) for each in (output, warning)
    )
    assert failure.message == "exit code 1 after 2 s: ValueError: no such file"
    assert failure.detail == "loading\nValueError: no such file"
    assert alone.message.endswith(warning)


def joining(world_size: int | None, *late_s: float) -> ProgramReport:
    """Rank 0, then rank 1 so late, perhaps again; each is there for a second, for three calls."""
    times_s = {"init_rpc": 0.0, "ready": 0.1, "shutdown": 1.0, "ended": 1.1}
    processes = []
    for place, after_s in enumerate([0.0, *late_s]):
        events = [event for event in events_of(min(place, 1)) if event["kind"] in times_s]
        for event in events:
            at_s = times_s[event["kind"]] + after_s
            event |= {"time_ns": BEGAN_NS + round(at_s * 1e9)}
            event |= {key: 3 for key in ("calls",) if key in event}
            event |= {"world_size": world_size} if "world_size" in event else {}
        processes.append(events)
    return report_of(*processes)


@pytest.mark.parametrize(("world_size", "late_s", "active_s"), [(None, 5.0, 5.9), (2, 0.0, 0.9)])
def test_every_ratio_is_of_one_interval(
    world_size: int | None, late_s: float, active_s: float
) -> None:
    """Without a world size ranks come and go: the first one is there long before the last."""
    end = replace(END, exit_codes=(0,), run_s=9.0, report=joining(world_size, late_s))
    found = measured(outcome_of(end, REQUEST))
    program = known(found.program)
    assert program.calls == 6
    assert found.wall_s == program.rpc_active_s == pytest.approx(active_s)
    # Both used half a second, from their own start to the end of their own shutdown.
    assert found.cpu_s == pytest.approx(1.0)
    assert found.cpu_wall_s == pytest.approx(late_s + 1.0)
    assert found.cpu_cores == pytest.approx(1.0 / (late_s + 1.0))


def test_a_rank_that_comes_back_begins_no_other_world_without_a_world_size() -> None:
    report = joining(None, 5.0, 7.0)
    assert [rank.rank for rank in report.ranks] == [0, 1, 1]
    assert len(report.worlds) == 1
    assert not report.has_world_size


def test_a_run_that_is_late_tells_what_the_threads_of_each_rank_did() -> None:
    """One whose threads are not idle, and one that is gone."""
    answer = next(event for event in events_of(0) if event["kind"] == "answer")
    busy = {**answer, "pool_size": 4, "idle": 0, "waiting": 3}
    gone = {"kind": "gone", "pid": 4_000_002, "time_ns": answer["time_ns"], "code": None}
    report = report_of([*until(0, "shutdown"), busy], [*until(1, "ready"), gone])
    late = replace(END, report=report, states=records_of(report), is_late=True, exit_codes=(None,))
    failure = failed(outcome_of(late, REQUEST))
    assert failure.failure == "timed-out"
    assert failure.message == (
        "not done after 2 s (3 calls made; agent in shutdown with 0 of 4 worker threads idle "
        "and 3 waiting for calls of their own, observer1 gone)"
    )
    assert "4 worker threads, 0 idle, 3 waiting" in failure.detail


def test_a_run_without_the_number_that_is_compared_has_crashed() -> None:
    """It ended well, and a rank of it was ended before it called `shutdown`."""
    report = report_of(until(0, "ended"), until(1, "ready"))
    end = replace(END, report=report, exit_codes=(0,), output="done")
    measured(outcome_of(end, REQUEST))
    measured(outcome_of(end, REQUEST, OBJECTIVES["wall_s"]))
    failure = failed(outcome_of(end, REQUEST, OBJECTIVES["rpc_active_s"]))
    assert (failure.failure, failure.detail) == ("crashed", "done")
    assert failure.message == (
        "observer1 never called shutdown, so this run has no time from the last rank's init_rpc "
        "to the driver's shutdown"
    )


@pytest.mark.parametrize(("name", "rank"), [("", ""), ("agent", "agent")])
def test_a_cause_of_a_process_that_is_no_rank_names_none(name: str, rank: str) -> None:
    raised = "ValueError: no data"
    cause = Cause(time_ns=BEGAN_NS, rank=name or None, text=f"a process failed first: {raised}")
    failure = failed(outcome_of(replace(END, cause=cause, output="loading"), REQUEST))
    assert (failure.failure, failure.rank, failure.message) == ("crashed", rank, cause.text)


def test_a_run_that_ends_before_a_chosen_window_is_measured_whole() -> None:
    """Before one that a person has named, it has failed."""
    report = report_of(until(0, "gone"), until(1, "gone"))
    end = replace(END, exit_codes=(0,), report=replace(report, problems=()))
    named = REQUEST.model_copy(update={"window_s": 9.0})
    chosen = named.model_copy(update={"window_is_chosen": True})
    assert outcome_of(end, chosen) == measured(outcome_of(end, REQUEST))
    assert failed(outcome_of(end, named)).message.endswith("before its window was over")


def test_what_a_rank_used_is_not_known_that_ends_without_a_word() -> None:
    """By os._exit, before it was ever asked: that is not nothing."""
    report = report_of(until(0, "ready"), until(1, "ended"))
    found = measured(outcome_of(replace(END, exit_codes=(0,), report=report), REQUEST))
    assert [rank.cpu_s is None for rank in found.ranks] == [True, False]
    assert (found.cpu_s, found.cpu_cores, found.peak_rss_mb) == (None, None, None)
    assert OBJECTIVES["wall_s"].read(found) == found.world_s
    lacks = outcome_of(replace(END, exit_codes=(0,), report=report), REQUEST, OBJECTIVES["cpu_s"])
    assert failed(lacks).message.endswith(
        "never called shutdown, so this run has no CPU time of all ranks"
    )


def test_a_program_lasts_longer_from_when_its_last_rank_begins_to_hand_over() -> None:
    """The first rank took a second; the second one, which began later, is still at it."""
    events = [until(rank, "record-end") for rank in range(2)]
    starts_ns = [next(e["time_ns"] for e in event if e["kind"] == "hand-over") for event in events]
    first, second = events[0], until(1, "hand-over")
    first[-1]["time_ns"] = starts_ns[0] + 10**9
    second[-1]["time_ns"] = starts_ns[0] + 3 * 10**9
    now_ns = starts_ns[0] + 5 * 10**9
    report = report_of(first, second)
    assert report.is_handing_over
    assert report.handed_over_s(now_ns) == 2
    gone = {"kind": "gone", "pid": second[0]["pid"], "time_ns": starts_ns[0] + 4 * 10**9,
            "code": -9}  # fmt: skip
    report = report_of(first, [*second, gone])
    assert not report.is_handing_over
    assert report.handed_over_s(now_ns) == 1
    assert report_of(until(0, "ended"), until(1, "ended")).handed_over_s(now_ns) == 0
