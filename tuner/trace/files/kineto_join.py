"""Joins the Kineto files of several processes into one trace on one clock."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count, pairwise

import numpy as np

from tuner.errors import UsageError
from tuner.text import listed, three_digits
from tuner.trace.files.chrome_events import UNKNOWN_CLOCKS, Spans, calls_by_name, unread_loss
from tuner.trace.files.kineto_reader import YEAR_2001_NS, KinetoFile, Process
from tuner.trace.files.trace_text import READ
from tuner.trace.model.spans import TraceRank
from tuner.trace.model.trace import IntArray, RankFile, Trace, make_operators

NO_CALLS = (
    "Kineto records operators, not calls: how long calls took, and which call ran an operator, "
    "is not known."
)
CLIENTS_ONLY = "The calls are those that their clients annotated; their servers' side is not known."
_MOST_NAMED = 4
_DAY_NS = 86_400e9  # windows of one recording are not days apart
_NUMBERED = re.compile(r"([^0-9]*)([0-9]*)")


def join_kineto(files: Sequence[KinetoFile]) -> Trace:
    """One trace of all processes. UsageError if the files cannot be of one run."""
    files = sorted(files, key=lambda file: (_natural(file.subject), file.subject))
    processes = [process for file in files for process in file.processes]
    problems = [*_same_ranks(processes), *_world_sizes(processes), *_baseless(processes)]
    if problems := problems or _windows_apart(processes):
        raise UsageError.about("these traces do not belong together", problems)
    losses = [loss for file in files for loss in file.losses]
    if not any(len(process.operators.names) or len(process.calls.names) for process in processes):
        found = [f"{file.subject}: no operator and no call in it{file.others}" for file in files]
        if len(found) == 1:
            raise UsageError(f"{found[0]}; {READ}", losses)
        raise UsageError(f"no operator and no call in these traces; {READ}", [*found, *losses])
    hosts = {process.host for process in processes}
    is_one_host = len(processes) == 1 or (len(hosts) == 1 and "" not in hosts)
    rank_files = _rank_files(processes)
    numbers = [file.rank for file in rank_files]
    names = _names(processes, numbers)
    windows = [process.window_ns for process in processes if process.window_ns]
    zero_ns = min((start for start, _ in windows), default=0)
    client, spans = _together(numbers, [process.calls for process in processes], zero_ns)
    calls = calls_by_name(spans, client, dict(zip(names, numbers, strict=True)))
    rank, spans = _together(numbers, [process.operators for process in processes], zero_ns)
    operators = dict(zip(("name", "thread", "start_ns", "end_ns"), spans, strict=True))
    ranks = [
        TraceRank(rank=number, name=name, host=each.host, pid=each.pid, threads=each.threads)
        for number, name, each in zip(numbers, names, processes, strict=True)
    ]
    return Trace(
        calls=calls,
        operators=make_operators({"rank": rank, **operators}),
        ranks=tuple(sorted(ranks, key=lambda each: each.rank)),
        source="kineto",
        base_time_ns=zero_ns,
        window_ns=(0, max((end for _, end in windows), default=0) - zero_ns),
        losses=(
            *losses,
            *unread_loss(
                sum((file.unread for file in files), Counter()), sum(file.events for file in files)
            ),
            NO_CALLS if calls.empty else CLIENTS_ONLY,
            *([] if is_one_host else [UNKNOWN_CLOCKS]),
        ),
        world_size=max((process.world_size or 0 for process in processes), default=0) or None,
        rank_files=tuple(sorted(rank_files, key=lambda file: file.rank)),
    )


def _natural(path: str) -> list[tuple[str, int]]:
    """A key that sorts `worker2` before `worker10`."""
    return [(text, int(digits or 0)) for text, digits in _NUMBERED.findall(path)]


def _same_ranks(processes: Sequence[Process]) -> list[str]:
    """Files of one rank: copies, or windows of one recording; also of a process without a rank."""
    problems = []
    groups = defaultdict[tuple[object, ...], list[Process]](list)
    for process in processes:
        if process.rank is not None:
            groups[("rank", process.rank)].append(process)
        elif process.pid is not None:
            groups[("process", process.pid, process.host)].append(process)
    for (what, number, *_), group in groups.items():
        subjects = list(dict.fromkeys(each.subject for each in group))
        more = [f"{len(subjects) - _MOST_NAMED} more"] if len(subjects) > _MOST_NAMED else []
        named = listed([*subjects[:_MOST_NAMED], *more])
        known = sorted(each.window_ns for each in group if each.window_ns)
        apart_ns = [latter[0] - former[1] for former, latter in pairwise(known)]
        are_apart = len(known) == len(group) > 1 and min(apart_ns) > 0
        longest_days = max(apart_ns, default=0) / _DAY_NS
        both = "both" if len(subjects) == 2 else "all"
        if are_apart and (longest_days > 1 or len({(each.pid, each.host) for each in group}) > 1):
            far = f"up to {three_digits(round(longest_days, 1))} days apart"
            problems.append(
                f"{named} are {both} of {what} {number}, but not of one run: they were recorded "
                f"{'by different processes' if longest_days <= 1 else far}"
            )
        elif are_apart:
            verb = "are" if what == "rank" else "look like"
            problems.append(
                f"{named} {verb} windows of one recording of {what} {number}, as "
                "torch.profiler.schedule(repeat=...) writes them: read the files of one window, "
                "one per rank"
            )
        elif len(group) > 1 and what == "rank":
            problems.append(f"{named} are {both} of rank {number}")
    return problems


def _world_sizes(processes: Sequence[Process]) -> list[str]:
    sizes = {each.world_size: each.subject for each in reversed(processes) if each.world_size}
    if len(sizes) < 2:
        return []
    worlds = (f"{size} in {subject}" for size, subject in reversed(sizes.items()))
    return [f"they differ in their number of ranks: {listed(worlds)}"]


def _baseless(processes: Sequence[Process]) -> list[str]:
    """Files whose times cannot be compared with those of others."""
    return [
        f"{each.subject} breaks off before the base time that its times count from. They cannot be "
        "compared with those of other files: read it alone"
        for each in processes
        if each.is_baseless and any(other.subject != each.subject for other in processes)
    ]


def _windows_apart(processes: Sequence[Process]) -> list[str]:
    """Recordings that begin after all earlier ones have ended: those of one run overlap."""
    hosts = sorted({process.host for process in processes})
    clocks = "" if len(hosts) == 1 or "" in hosts else (
        f". If they are of one run, the clocks of the hosts {listed(hosts)} are that far apart: "
        "read the files of each host alone"
    )  # fmt: skip
    windows = sorted((*each.window_ns, each.subject) for each in processes if each.window_ns)
    problems = []
    latest_ns = windows[0][1] if windows else 0
    for start_ns, end_ns, subject in windows:
        if start_ns > latest_ns:
            after = f"{three_digits((start_ns - latest_ns) / 1e9)} s after the end of the earlier"
            begun = datetime.fromtimestamp(start_ns / 1e9, tz=UTC)
            at = f", at {begun:%Y-%m-%d %H:%M:%S} UTC" if start_ns >= YEAR_2001_NS else ""
            problems.append(f"{subject} begins {after} ones{at}{clocks}")
        latest_ns = max(latest_ns, end_ns)
    return problems


def _rank_files(processes: Sequence[Process]) -> list[RankFile]:
    """The rank of each: as its file says, by its name in its calls, or the lowest free one."""
    said = [process.rank for process in processes]
    named = [_number_in(each.rpc_name) if each.rank is None else each.rank for each in processes]
    known = [number for number in named if number is not None]
    numbers = named if len({*known}) == len(known) else said
    free = (number for number in count() if number not in numbers)
    return [
        RankFile(
            rank=next(free) if number is None else number,
            file=process.subject,
            by="order" if number is None else "calls" if process.rank is None else "file",
        )
        for process, number in zip(processes, numbers, strict=True)
    ]


def _names(processes: Sequence[Process], numbers: Sequence[int]) -> list[str]:
    """The RPC name of each process; `rank N` where no call has it."""
    own = [(process.rpc_name, number) for process, number in zip(processes, numbers, strict=True)]
    servers: dict[int | None, str] = {}
    # Where the ranks of callers are in their names, those of servers are so, too.
    if all(_number_in(name) == number for name, number in own if name):
        called = {name.server for process in processes for name in process.call_names}
        servers = {_number_in(name): name for name in sorted(called - {name for name, _ in own})}
    return [name or servers.get(number, f"rank {number}") for name, number in own]


def _number_in(name: str | None) -> int | None:
    """The number at the end of an RPC name: 1 for `worker1`."""
    found = re.search(r"[0-9]{1,9}$", name or "")
    return int(found[0]) if found else None


def _together(
    numbers: Sequence[int], parts: Sequence[Spans], zero_ns: int
) -> tuple[IntArray, Spans]:
    """The rank of each span, and the spans of all ranks; times since `zero_ns`."""
    spans = Spans.joined(parts)
    rank = np.repeat(numbers, [len(part.names) for part in parts])
    return rank, spans._replace(start_ns=spans.start_ns - zero_ns, end_ns=spans.end_ns - zero_ns)
