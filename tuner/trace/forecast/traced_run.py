"""What a trace lacks for a forecast, the part of it to replay, the machine that it ran on, and the
programs that it may show."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tuner.text import listed, plural
from tuner.trace.analyze.call_times import call_times
from tuner.trace.analyze.diagnosis_rules import FULL_HOST, RUN_QUEUE_ON_FULL_HOST
from tuner.trace.analyze.gil_use import switch_ns
from tuner.trace.analyze.path_walk import Driver
from tuner.trace.analyze.server_parallelism import window_length_ns
from tuner.trace.analyze.time_spans import floats
from tuner.trace.forecast.program import ISSUE, Program
from tuner.trace.forecast.replay import Machine, replay
from tuner.trace.forecast.traced_program import Case, TracedProgram
from tuner.trace.forecast.ways import Ways
from tuner.trace.model.trace import RECORDERS, Trace

MOST_OF_WINDOW = 0.8  # what is known of the window speaks for the calls if they fill so much of it
SEEN = 0.95  # the share of the calls, or of their time, of which the trace must tell
CLOSE = 0.05  # log(replay / trace)
PLENTY = 1 << 20  # logical CPUs, where their number is not known


def lacks(trace: Trace, driver: Driver | None) -> str:
    """What the trace lacks for a forecast; empty if nothing."""
    calls = trace.calls
    if trace.source != "rpc-tuner":
        return (
            f"a trace of {RECORDERS[trace.source]} does not tell which calls are made inside "
            "others, nor what served functions do with their time; rpc-tuner record takes one that "
            "does"
        )
    if driver is None:
        return "the trace holds no calls that ended"
    unended = int(calls["end_ns"].isna().sum())
    if unended > (1 - SEEN) * len(calls):
        return f"{plural(unended, 'call')} of {len(calls)} did not end"
    used, known = {*calls["server_rank"], *calls["client_rank"]}, {r.rank for r in trace.ranks}
    if not used <= known:
        return "the trace lacks a rank that was called"
    if nameless := [r.name for r in trace.ranks if r.rank in used and not r.num_worker_threads]:
        return f"the trace does not tell the num_worker_threads of {listed(nameless)}"
    return ""


def unseen(trace: Trace) -> float:
    """The share of the calls' time of which it is not known how they were served."""
    calls = trace.calls
    took = floats(calls, "end_ns") - floats(calls, "start_ns")
    is_seen = calls["server_end_ns"].notna().to_numpy() | (calls["body"] == "fetch").to_numpy()
    return float(np.nansum(took[~is_seen]) / max(np.nansum(took), 1.0))


def driver_cpu_ns(trace: Trace, driver: Driver, took_ns: float) -> tuple[float, float] | None:
    """How long the driver was on the CPU in the part that took so long, at most, and of that at
    least during its calls; None where it is not known."""
    process, whole_ns = trace.process(driver.rank), _calls_last_ns(trace, driver)
    if not whole_ns or process.main_cpu_s is None or not driver.is_main_of(process):
        return None
    part, used_ns = min(took_ns / whole_ns, 1.0), process.main_cpu_s * 1e9
    outside_ns = window_length_ns(trace) - whole_ns
    return used_ns * part, (used_ns - outside_ns) * part


def _calls_last_ns(trace: Trace, driver: Driver) -> float:
    """How long the driver's calls last; 0 if much of the window lies outside of them."""
    start, end = floats(driver.calls, "start_ns"), floats(driver.calls, "end_ns")
    whole_ns = float(end.max() - start.min())
    return whole_ns if whole_ns >= MOST_OF_WINDOW * window_length_ns(trace) else 0.0


def rest_of(trace: Trace, driver: Driver) -> float:
    """How long a program was recorded after its last call, over the time of its driver's calls; 0
    of steps of a workload, which end with their calls."""
    start, end = floats(driver.calls, "start_ns"), floats(driver.calls, "end_ns")
    last = np.nanmax(floats(trace.calls, "end_ns"))
    if trace.steps is not None:
        return 0.0
    return max(float(trace.window_ns[1] - last), 0.0) / max(float(end.max() - start.min()), 1.0)


def computing(trace: Trace) -> float:
    """The share of the served time on the CPU, or ready for one, of calls that make none."""
    calls = trace.calls
    times = call_times(calls[~calls["call_id"].isin(calls["parent_call"].dropna())])
    wanted_us = times["on_cpu_us"].sum() + times["run_queue_us"].sum()
    return float(wanted_us / max(times["served_us"].sum(), 1.0))


def were_cpus_taken(trace: Trace, driver: Driver, machine: Machine) -> bool:
    """Whether calls waited for CPUs noticeably that the trace's processes did not fill."""
    if not _calls_last_ns(trace, driver):
        return False
    times, seconds = call_times(trace.calls), window_length_ns(trace) / 1e9
    # What is not known of a process may be all of the CPUs.
    used = sum(math.inf if rank.cpu_s is None else rank.cpu_s for rank in trace.ranks) / seconds
    waited = float(times["run_queue_us"].sum() / max(times["served_us"].sum(), 1.0))
    return waited >= RUN_QUEUE_ON_FULL_HOST and used < FULL_HOST * sum(machine.cpus)


def part_of(trace: Trace, driver: Driver, most: int) -> tuple[Trace, float]:
    """A trace of the calls that ended, or of some from its middle, and how long these took."""
    calls = trace.calls[trace.calls["end_ns"].notna()]
    start, end = floats(driver.calls, "start_ns"), floats(driver.calls, "end_ns")
    low, high = start.min(), end.max()
    if len(calls) > most:
        reach = np.concatenate(([-np.inf], np.maximum.accumulate(end)[:-1]))
        begins = start[start >= reach]
        every = np.sort(floats(calls, "start_ns"))
        first = every[(len(every) - most) // 2]
        last = every[(len(every) + most) // 2]
        low = begins[begins <= first].max(initial=low)
        high = begins[begins >= last].min(initial=high)
    is_in = (floats(calls, "start_ns") >= low) & (floats(calls, "start_ns") < high)
    calls = calls[is_in]
    while not (
        is_whole := calls["parent_call"].isna() | calls["parent_call"].isin(calls["call_id"])
    ).all():
        calls = calls[is_whole]  # the calls of what is cut off belong to nothing
    calls = calls.reset_index(drop=True)
    mine = calls[calls["call_id"].isin(driver.calls["call_id"])]
    return replace(trace, calls=calls), max(float(floats(mine, "end_ns").max() - low), 1.0)


def machine_of(trace: Trace) -> Machine:
    """What the trace ran on; CPUs that are not known are plenty."""
    ranks = {rank.rank: rank for rank in trace.ranks}
    hosts = sorted({rank.host for rank in trace.ranks})
    seconds = window_length_ns(trace) / 1e9
    served_s = trace.calls.groupby("server_rank")["cpu_ns"].sum().astype(float) / 1e9
    cpus, polling = [], []
    for host in hosts:
        here = [rank for rank in trace.ranks if rank.host == host]
        known = [rank.cpu_count for rank in here if rank.cpu_count is not None]
        cpus.append(float(max(known, default=PLENTY) or PLENTY))
        others = [
            rank.cpu_s - rank.main_cpu_s - served_s.get(rank.rank, 0.0)
            for rank in here if rank.cpu_s is not None and rank.main_cpu_s is not None
        ]  # fmt: skip
        polling.append(sum(max(other, 0.0) for other in others) / max(seconds, 1e-9))
    threads = [
        (ranks[rank].num_worker_threads or 1) if rank in ranks else 1
        for rank in range(max(ranks) + 1)
    ]
    return Machine(
        threads, cpus, polling, [switch_ns(trace.process(n)) for n in range(len(threads))]
    )


def programs_of(
    part: Trace,
    driver: Driver,
    cases: Sequence[Case],
    cpu_ns: float | None,
    machine: Machine,
    took_ns: float,
    ways: Ways,
) -> tuple[list[Program], list[float], bool]:
    """The program of each case, how long its replay takes, and whether others disturbed it.

    Threads that were ready waited for a CPU because of each other, which a replay shows again, or,
    where that is closer to what the trace took, because of other programs, which stay.
    """
    found = []
    stays = part.calls.assign(run_queue_ns=pd.array([0] * len(part.calls)))
    for is_disturbed, calls in enumerate((part.calls, stays)):
        taken = replace(part, calls=calls)
        programs = [TracedProgram(taken, driver, case, ways).program(cpu_ns) for case in cases]
        base_ns = [max(replay(program, machine).took_ns, 1.0) for program in programs]
        found.append((programs, base_ns, bool(is_disturbed)))
        if abs(math.log(base_ns[0] / took_ns)) <= CLOSE:
            break
    return min(found, key=lambda case: abs(math.log(case[1][0] / took_ns)))


def unknown_threads(program: Program) -> str:
    """That many calls are made by threads that may wait for others; empty if not."""
    others = [root for root in program.roots if not root.is_known]
    number = sum(kind == ISSUE for root in others for kind, _ in root.ops)
    if number <= (1 - SEEN) * len(program.calls):
        return ""
    names = listed(dict.fromkeys(program.names[root.rank] for root in others))
    return f"threads of {names} make calls, and what these wait for is not known"
