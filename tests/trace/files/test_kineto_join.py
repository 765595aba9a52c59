import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from testing.golden_files import KINETO, SPAN, Events, operator, rows, write_kineto
from tuner.errors import UsageError
from tuner.trace.files.chrome_events import UNKNOWN_CLOCKS
from tuner.trace.files.reader import read_trace, read_traces
from tuner.trace.files.trace_text import READ


def annotated(name: str) -> Events:
    return [operator(cat="user_annotation", name=name), operator(name=f"after {name}")]


@pytest.mark.parametrize("paths", [KINETO, KINETO[::-1]])
def test_several_ranks_get_one_clock(paths: tuple[Path, ...]) -> None:
    """Rank 1's base time is 500 us later, and it begins to record 100 us earlier."""
    trace = read_traces(paths)
    assert trace.window_ns == (0, 1_200_000)
    assert rows(trace.operators, *SPAN) == [
        (0, 70, "aten::add", 410_125, 420_125),
        (0, 70, "aten::empty", 411_001, 414_000),
        (0, 72, "aten::relu", 500_000, 520_250),
        (1, 81, "aten::mul", 300_000, 303_000),
        (1, 81, "aten::add", 310_000, 314_000),
    ]


def test_without_ranks_in_the_files_the_natural_order_of_their_names_decides(
    tmp_path: Path,
) -> None:
    """Whatever the order of the arguments."""
    info = {"rank": 0}
    names = ["worker10", "worker2", "worker02", "worker1"]
    paths = [write_kineto(tmp_path / name, [operator(name=name)]) for name in names]
    paths.append(write_kineto(tmp_path / "zero", [operator(name="zero")], distributedInfo=info))
    ordered = ["zero", "worker1", "worker02", "worker2", "worker10"]
    for order in (paths, paths[::-1]):
        trace = read_traces(order)
        assert [Path(file.file).name for file in trace.rank_files] == ordered
        assert [file.by for file in trace.rank_files] == ["file", *["order"] * 4]
        assert rows(trace.operators, "rank", "name") == list(enumerate(ordered))


@pytest.mark.parametrize(
    ("calls", "ranks", "called"),
    [
        (("w1 -> w0", "w0 -> w1", ""), [(1, "w1", "calls"), (0, "w0", "calls"),
                                        (2, "rank 2", "order")], [(1, 0), (0, 1)]),
        # Names without numbers, or with equal ones, or one without.
        (("trainer -> ps", "ps -> trainer"), [(0, "trainer", "order"), (1, "ps", "order")],
         [(0, 1), (1, 0)]),
        (("a0 -> b0", "b0 -> a0"), [(0, "a0", "order"), (1, "b0", "order")], [(0, 1), (1, 0)]),
        (("w7 -> x", "x -> w7"), [(7, "w7", "calls"), (0, "x", "order")], [(7, 0), (0, 7)]),
        # One that calls nobody has the name that others call its rank by.
        (("w0 -> w1", ""), [(0, "w0", "calls"), (1, "w1", "order")], [(0, 1)]),
        (("trainer -> w1", ""), [(0, "trainer", "order"), (1, "rank 1", "order")], [(0, -1)]),
    ],
)  # fmt: skip
def test_the_numbers_in_rpc_names_are_ranks(
    calls: Sequence[str], ranks: list[tuple[int, str, str]], called: list[tuple[int, int]],
    tmp_path: Path,
) -> None:  # fmt: skip
    events = [annotated(f"rpc_sync#f({call})") if call else [operator()] for call in calls]
    paths = [write_kineto(tmp_path / f"{place}", event) for place, event in enumerate(events)]
    trace = read_traces(paths)
    by_file = sorted(trace.rank_files, key=lambda file: file.file)
    assert [(each.rank, trace.process(each.rank).name, each.by) for each in by_file] == ranks
    assert rows(trace.calls, "client_rank", "server_rank") == called


@pytest.mark.parametrize(
    ("hosts", "is_unknown"),
    [(("a", "a"), False), (("a", "b"), True), (("", ""), True), (("a", ""), True)],
)
def test_clocks_are_in_doubt_unless_the_files_name_one_host(
    hosts: tuple[str, str], is_unknown: bool, tmp_path: Path
) -> None:
    paths = [
        write_kineto(tmp_path / f"{place}", [operator(pid=place)], host_name=host)
        for place, host in enumerate(hosts)
    ]
    assert (UNKNOWN_CLOCKS in read_traces(paths).losses) == is_unknown


def rank_of(rank: int, size: int = 2) -> dict[str, Any]:
    return {"distributedInfo": {"rank": rank, "world_size": size}}


BASE: dict[str, Any] = {"baseTimeNanoseconds": 1_700_000_000_000_000_000}
WINDOWS = "as torch.profiler.schedule(repeat=...) writes them: read the files of one window, one"
APART: dict[str, tuple[list[tuple[float, float, dict[str, Any]]], str]] = {
    # Start and duration of the operator of each file, and the header; what is said.
    "hosts": (
        [(1000, 2e6, {"host_name": "a", **rank_of(0)}),
         (60_001_000, 2e6, {"host_name": "b", **rank_of(1)})],
        "{1} begins 58 s after the end of the earlier ones. If they are of one run, the clocks of "
        "the hosts a and b are that far apart: read the files of each host alone",
    ),
    "windows of a rank": (
        [(100.0 * i, 50, {"distributedInfo": {"rank": 3}}) for i in range(6)],
        "{0}, {1}, {2}, {3} and 2 more are windows of one recording of rank 3, " + WINDOWS,
    ),
    "windows of a process": (
        [(100.0 * i, 50, {}) for i in range(2)],
        "{0} and {1} look like windows of one recording of process 7, " + WINDOWS,
    ),
    "copies": ([(10, 5, rank_of(1)), (10, 5, rank_of(1))], "{0} and {1} are both of rank 1"),
    "sizes": (
        [(10, 5, rank_of(0)), (10, 5, rank_of(1)), (10, 5, rank_of(2, 4))],
        "they differ in their number of ranks: 2 in {0} and 4 in {2}",
    ),
    "times": (
        [(0, 5, {**BASE, **rank_of(0)}), (5, 5, {**BASE, **rank_of(1)}),
         (10.001, 5, {**BASE, **rank_of(2)})],
        "{2} begins 0.000000001 s after the end of the earlier ones, at 2023-11-14 22:13:20 UTC",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "said"), APART.values(), ids=APART)
def test_files_that_cannot_be_of_one_run_do_not_belong_together(
    files: list[tuple[float, float, dict[str, Any]]], said: str, tmp_path: Path
) -> None:
    paths = [
        write_kineto(tmp_path / f"{place}", [operator(ts=ts, dur=dur)], **header)
        for place, (ts, dur, header) in enumerate(files)
    ]
    with pytest.raises(UsageError) as refused:
        read_traces(paths[::-1])
    expected = f"these traces do not belong together: {said.format(*paths)}"
    assert str(refused.value).startswith(expected)


def test_a_recording_may_overlap_with_only_one_other(tmp_path: Path) -> None:
    """The first lasts from before the second to the third, which begins after the second ended."""
    paths = [
        write_kineto(tmp_path / f"{start}", [operator(ts=start, dur=dur)])
        for start, dur in ((0.0, 50.0), (10.0, 1.0), (40.0, 20.0))
    ]
    assert len(read_traces(paths).ranks) == 3


def test_a_file_that_breaks_off_before_its_base_time_is_read_alone(tmp_path: Path) -> None:
    whole = write_kineto(tmp_path / "b", [operator(pid=8)], **BASE)
    cut = write_kineto(tmp_path / "a", [operator(), operator(ts=15.0)])
    cut.write_bytes(cut.read_bytes()[:-20])
    with pytest.raises(UsageError) as refused:
        read_traces([cut, whole])
    assert str(refused.value) == (
        f"these traces do not belong together: {cut} breaks off before the base time that its "
        "times count from. They cannot be compared with those of other files: read it alone"
    )
    trace = read_trace(cut)
    assert len(trace.operators) == 1
    unknown = "from when its times count is not known"
    assert trace.losses[1] == f"{cut} lacks its base time: {unknown}."


def test_an_array_that_breaks_off_never_had_a_base_time(tmp_path: Path) -> None:
    whole, cut = tmp_path / "b", tmp_path / "a"
    whole.write_text(json.dumps([operator(pid=8)]))
    cut.write_text(f"[{json.dumps(operator())}," + '{"ph"')
    found = read_traces([cut, whole])
    assert len(found.ranks) == 2
    assert "breaks off" in found.losses[0]
    assert "base time" not in " ".join(found.losses)


def test_files_without_operators_and_calls_are_all_named(tmp_path: Path) -> None:
    paths = [write_kineto(tmp_path / f"{pid}", [operator(cat="kernel", pid=pid)]) for pid in (7, 8)]
    with pytest.raises(UsageError) as refused:
        read_traces(paths)
    only = "no operator and no call in it, only 1 event of GPUs (kernel): profile the CPU, too"
    assert str(refused.value).splitlines() == [
        f"no operator and no call in these traces; {READ}",
        *(f"  - {path}: {only}" for path in paths),
    ]
