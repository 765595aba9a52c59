"""Joins the Kineto files of several processes into one trace on one clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from tuner.errors import UsageError
from tuner.text import listed, three_digits
from tuner.trace.files.chrome_events import UNKNOWN_CLOCKS, IntArray, Spans
from tuner.trace.files.kineto_reader import KinetoFile, Process
from tuner.trace.files.named_calls import calls_by_name
from tuner.trace.model.columns import make_operators
from tuner.trace.model.facts import TraceRank
from tuner.trace.model.trace import Trace

NO_CALLS = (
    "Kineto records operators, not calls: how long calls took, and which call ran an operator, "
    "is not known."
)
CLIENTS_ONLY = "The calls are those that their clients annotated; their servers' side is not known."


@dataclass(frozen=True)
class _Rank:
    """A process and its rank in the joined trace."""

    number: int
    process: Process

    @property
    def name(self) -> str:
        return self.process.rpc_name or f"rank {self.number}"


def join_kineto(files: Sequence[KinetoFile]) -> Trace:
    """One trace of all processes; its zero is the moment in which the first began to record.

    A process whose file does not tell its rank gets the lowest free one. UsageError if the files
    cannot be of one run.
    """
    processes = [process for file in files for process in file.processes]
    if problems := [*_same_ranks(processes), *_world_sizes(processes), *_windows_apart(processes)]:
        raise UsageError.about("these traces do not belong together", problems)
    losses = [loss for file in files for loss in file.losses]
    if not any(len(each.operators.names) or len(each.calls.names) for each in processes):
        subjects = listed(dict.fromkeys(each.subject for each in processes))
        raise UsageError(f"{subjects}: no operator and no call in it", losses)
    ranks = _numbered(processes)
    windows = [each.window_ns for each in processes if each.window_ns]
    zero_ns = min((start for start, _ in windows), default=0)
    calls = _calls(ranks, zero_ns)
    return Trace(
        calls=calls,
        operators=_operators(ranks, zero_ns),
        ranks=tuple(
            TraceRank(
                rank=rank.number,
                name=rank.name,
                host=rank.process.host,
                pid=rank.process.pid,
                threads=rank.process.threads,
            )
            for rank in sorted(ranks, key=lambda rank: rank.number)
        ),
        source="kineto",
        base_time_ns=zero_ns,
        window_ns=(0, max((end for _, end in windows), default=0) - zero_ns),
        losses=(
            *losses,
            NO_CALLS if calls.empty else CLIENTS_ONLY,
            *([UNKNOWN_CLOCKS] if len(ranks) > 1 else []),
        ),
    )


def _same_ranks(processes: Sequence[Process]) -> list[str]:
    first: dict[int, Process] = {}
    problems = []
    for each in processes:
        if each.rank is None:
            continue
        other = first.setdefault(each.rank, each)
        if other is not each:
            problems.append(f"{other.subject} and {each.subject} are both of rank {each.rank}")
    return problems


def _world_sizes(processes: Sequence[Process]) -> list[str]:
    sizes = {each.world_size: each.subject for each in reversed(processes) if each.world_size}
    if len(sizes) < 2:
        return []
    worlds = (f"{size} in {subject}" for size, subject in reversed(sizes.items()))
    return [f"they differ in their number of ranks: {listed(worlds)}"]


def _windows_apart(processes: Sequence[Process]) -> list[str]:
    """Recordings that begin after all earlier ones have ended: those of one run overlap."""
    windows = sorted((each.window_ns, each.subject) for each in processes if each.window_ns)
    problems = []
    latest_ns = windows[0][0][1] if windows else 0
    for (start_ns, end_ns), subject in windows:
        if start_ns > latest_ns:
            started = datetime.fromtimestamp(start_ns / 1e9, tz=UTC)
            problems.append(
                f"{subject} begins {three_digits((start_ns - latest_ns) / 1e9)} s after the end of "
                f"the earlier ones, at {started:%Y-%m-%d %H:%M:%S} UTC"
            )
        latest_ns = max(latest_ns, end_ns)
    return problems


def _numbered(processes: Sequence[Process]) -> list[_Rank]:
    told = {each.rank for each in processes}
    free = (number for number in count() if number not in told)
    return [_Rank(next(free) if each.rank is None else each.rank, each) for each in processes]


def _together(
    ranks: Sequence[_Rank], spans: Sequence[Spans], zero_ns: int
) -> tuple[pd.Categorical, IntArray, IntArray, IntArray, IntArray]:
    """Names, ranks, threads, starts and ends of all ranks' spans; times since `zero_ns`."""
    return (
        union_categoricals([each.names for each in spans]),
        np.repeat([rank.number for rank in ranks], [len(each.names) for each in spans]),
        np.concatenate([each.threads for each in spans]),
        np.concatenate([each.start_ns for each in spans]) - zero_ns,
        np.concatenate([each.end_ns for each in spans]) - zero_ns,
    )


def _operators(ranks: Sequence[_Rank], zero_ns: int) -> pd.DataFrame:
    name, rank, thread, start_ns, end_ns = _together(
        ranks, [each.process.operators for each in ranks], zero_ns
    )
    return make_operators(
        {"rank": rank, "thread": thread, "name": name, "start_ns": start_ns, "end_ns": end_ns}
    )


def _calls(ranks: Sequence[_Rank], zero_ns: int) -> pd.DataFrame:
    names, rank, thread, start_ns, end_ns = _together(
        ranks, [each.process.calls for each in ranks], zero_ns
    )
    return calls_by_name(
        names,
        client_rank=rank,
        client_thread=thread,
        start_ns=start_ns,
        end_ns=end_ns,
        ranks={each.name: each.number for each in ranks},
    )
