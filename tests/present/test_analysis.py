from dataclasses import replace

import pytest

from tests.present.screen import Screen
from tests.trace.golden_files import KINETO, LEGACY
from tests.trace.synthetic import Part, call, operator, ranks, simulate, trace
from tuner.analyze import FEW_ROWS
from tuner.present.analysis import MOST_LISTED, Analysis, print_analysis
from tuner.trace.files.reader import read_traces
from tuner.trace.model.trace import RankFile, Trace

SECTIONS = [
    "Time by call and by operator",
    "Latency of calls",
    "Where the time of a call goes, on average",
    "The critical path: what the driver waited for, and what that waited for in turn",
    "Parallelism of each server: its threads at work",
]

LEFT_OUT = (
    "{} left out: less than 0.5 %, even at the upper end of the interval; --row-limit 0 shows all"
)


def printed(
    found: Trace, *, width: int = 200, terminal: bool = False, row_limit: int | None = 30
) -> list[str]:
    screen = Screen(width=width, terminal=terminal)
    print_analysis(Analysis.of(found), screen.console, row_limit, None)
    return screen.lines


def section(lines: list[str], title: str) -> list[str]:
    """The lines of a section below its title."""
    start = lines.index(title) + 1
    return lines[start : lines.index("", start)]


def served_in_turn() -> Trace:
    """Ten steps of four calls, each 1 ms of an operator, on a server of one thread."""
    made = simulate([Part("operator", 1.0)], threads=1, at_once=4, steps=10)
    return replace(made, steps=10, tracing_overhead=1.25)


def test_the_trace_is_described_before_its_tables() -> None:
    found = replace(served_in_turn(), clock_error_ns=1500, losses=("A thread is missing.",))
    assert printed(found)[:5] == [
        "Recorded by rpc-tuner: 2 ranks (worker0, worker1) for 42 ms; 10 steps, 40 calls, "
        "40 operators.",
        "Tracing overhead: a traced step took 1.25 times as long as an untraced one.",
        "Times of different ranks are comparable to within 1.5 us.",
        "note: A thread is missing.",
        "",
    ]


def test_a_trace_lasts_as_long_as_what_it_holds() -> None:
    """A call may end after the driver's `shutdown`, which ended the recording."""
    late = [call(n, n, n + 2, served_ms=(n, n + 1)) for n in (0, 1000)]
    found = trace(late, window_ms=(0, 200))
    assert " for 1002 ms; " in printed(found)[0]
    assert Analysis.of(found).to_json()["window_ns"] == (0, 1_002_000_000)


def test_of_several_files_it_is_said_which_is_which_rank() -> None:
    files = [
        RankFile(rank=0, file="runs/b.json", by="calls"),
        RankFile(rank=1, file="runs/a.json", by="order"),
        RankFile(rank=2, file="runs/c.json", by="order"),
    ]
    found = replace(served_in_turn(), rank_files=tuple(files))
    assert printed(found)[1] == (
        "Ranks: 0 is b.json, by the names in their calls; 1 is a.json, 2 is c.json, by the order "
        "of the files' names."
    )
    namesake = [*files, RankFile(rank=3, file="others/b.json", by="order")]
    said = printed(replace(found, rank_files=tuple(namesake)))[1]
    assert said.startswith("Ranks: 0 is runs/b.json, ")
    assert "Ranks:" not in "".join(printed(replace(found, rank_files=tuple(files[:1]))))
    many = [RankFile(rank=rank, file=f"{rank}.json", by="file") for rank in range(64)]
    assert printed(replace(found, rank_files=tuple(many)))[1].endswith(
        "11 is 11.json, 52 more, as the files say."
    )
    assert Analysis.of(found).to_json()["rank_files"] == tuple(files)


@pytest.mark.parametrize(("size", "rows"), [(MOST_LISTED, 2 * MOST_LISTED), (MOST_LISTED + 1, 2)])
def test_of_many_ranks_the_rows_of_a_name_are_one(size: int, rows: int) -> None:
    ran = [
        operator(name, at, at + 2, rank=rank)
        for rank in range(size)
        for at, name in ((0, "aten::mm"), (3, "aten::add"))
    ]
    found = trace([], ran, processes=ranks(size))
    lines = section(printed(found, row_limit=1), SECTIONS[0])
    assert lines[-1] == f"1 of {rows} rows; --row-limit shows more"
    is_merged = rows == 2
    assert lines[-2].endswith("; each row is of all ranks" if is_merged else "; Node ID: rank")
    if is_merged:
        assert lines[-3].split()[0] == "aten::mm"
        assert lines[-3].split()[-2:] == [str(size), str(size)]
    assert len(Analysis.of(found).to_json()["recipe_table"]) == 2 * size


def test_every_section_is_there_and_the_diagnosis_comes_last() -> None:
    found = served_in_turn()
    lines = printed(found)
    assert [line for line in lines if line in SECTIONS] == SECTIONS
    place = lines.index(Analysis.of(found).diagnosis.text)
    assert place > lines.index(SECTIONS[-1])
    assert "more threads help" in lines[place]
    assert "1 thread is enough not to deadlock" in lines[-1]


def test_roles_of_which_nothing_is_known_have_no_line() -> None:
    lines = printed(trace([call(n, n, n + 2, body="script") for n in range(20)]))
    assert not any("deadlock" in line or "it may need more" in line for line in lines)
    assert lines[-1] == Analysis.of(trace([call(1, 0, 2, body="script")])).diagnosis.text


def test_the_recipes_table_names_calls_and_remote_operators_in_full() -> None:
    table = section(printed(served_in_turn()), SECTIONS[0])
    name = "rpc_async#udf(worker0 -> worker1)"
    assert [line.split() for line in table[:3]] == [
        ["Self", "CPU", "CPU", "time"],
        ["Self", "CPU", "CPU", "total", "avg", "#", "of", "Node"],
        ["Name", "CPU", "%", "(ms)", "total", "%", "(ms)", "(us)", "Calls", "ID"],
    ]
    assert table[4].startswith(name + " ")
    assert table[5].startswith(f"{name}#remote_op: aten::mm ")
    assert table[-1].endswith("CPU total is the time from start to end; Node ID: rank")
    assert table[5].split()[4:] == ["37.1", "%", "40", "37.1", "%", "40", "1000", "40", "1"]


def test_latency_shows_failures_only_where_there_are_some() -> None:
    fine = [call(n, n, n + 2, served_ms=(n, n + 1)) for n in range(3)]
    header = section(printed(trace(fine)), SECTIONS[1])[1].split()
    assert not {"raised", "out", "unfinished"} & set(header)
    bad = [
        *fine, call(7, 1, 3, status="raised"), call(8, 1, None), call(9, 1, 4, status="timed-out"),
        call(10, 1, 4, status="timed-out"),
    ]  # fmt: skip
    table = section(printed(trace(bad)), SECTIONS[1])
    assert table[0].split()[-1] == "timed"
    assert table[1].split()[-3:] == ["raised", "out", "unfinished"]
    assert table[-1].split()[-3:] == ["1", "2", "1"]


def test_the_breakdown_says_how_its_parts_add_up() -> None:
    measured = call(1, 0, 10, served_ms=(2, 7), cpu_ms=3, run_queue_ms=1.5)
    table = section(printed(trace([measured])), SECTIONS[2])
    assert [line.split() for line in table[:2]] == [
        ["on", "run", "off"],
        ["latency", "transport", "queue", "served", "CPU", "queue", "CPU"],
    ]
    assert table[-2].split()[3:] == ["1", "10", "5", "0", "5", "3", "1.5", "0.5"]
    assert table[-1] == (
        "latency = transport + queue (an estimate) + served; served = on CPU + run queue + off CPU"
    )


def test_the_busiest_servers_come_first_and_others_are_left_out() -> None:
    calls = [call(n, 0, 20, served_ms=(1, 1 + n), server_rank=n) for n in range(1, FEW_ROWS + 3)]
    table = section(printed(trace(calls), row_limit=FEW_ROWS), SECTIONS[4])
    named = [line.split(",")[0] for line in table if line.startswith("rank ") and "%" in line]
    assert named == [f"rank {n}" for n in range(FEW_ROWS + 2, 2, -1)]
    assert f"{FEW_ROWS} of {FEW_ROWS + 2} rows; --row-limit shows more" in table


def test_a_pending_future_has_its_column() -> None:
    pending = call(1, 0, 10, served_ms=(2, 3), done_ns=8_000_000)
    table = section(printed(trace([pending])), SECTIONS[2])
    assert table[0].split()[-1] == "pending"
    assert table[-2].split()[-1] == "5"
    # The CPU time is not known, so the line leaves it out.
    assert table[-1] == "latency = transport + queue (an estimate) + served + pending"


def test_parallelism_is_printed_by_server_with_its_levels_and_threads() -> None:
    calls = [
        call(1, 0, 5, served_ms=(0, 4), thread=11),
        call(2, 0, 5, served_ms=(2, 4), thread=12),
    ]
    table = section(printed(trace(calls, window_ms=(0, 8))), SECTIONS[4])
    assert table[-4].split() == [
        "worker1,", "serving", "calls", "4", "0.75", "50", "%", "1.5", "2", "37.5", "%", "2",
    ]  # fmt: skip
    assert table[-3:] == [
        "worker1, serving calls",
        "  time by threads at work: 0: 50 %, 1: 25 %, 2: 25 %",
        "  time at work by thread: 50 %, 25 %",
    ]


def test_one_thread_at_work_needs_no_lines_of_its_own() -> None:
    calls = [call(n, 10 * n, 10 * n + 5, served_ms=(10 * n, 10 * n + 4)) for n in range(3)]
    table = section(printed(trace(calls, window_ms=(0, 30))), SECTIONS[4])
    assert table[-1].split()[:3] == ["worker1,", "serving", "calls"]


def test_many_threads_are_cut_to_the_busiest() -> None:
    calls = [call(n, 0, 100, served_ms=(0, n), thread=n) for n in range(1, MOST_LISTED + 4)]
    table = section(printed(trace(calls, window_ms=(0, 100))), SECTIONS[4])
    shares = ", ".join(f"{n} %" for n in range(15, 15 - MOST_LISTED, -1))
    assert table[-1] == f"  time at work by thread: {shares}, 3 more"
    assert table[-2].endswith(", 4 more")


def test_the_critical_path_has_shares_their_intervals_and_what_its_parts_mean() -> None:
    table = section(printed(served_in_turn()), SECTIONS[3])
    name = "queue: udf on worker1"
    (row,) = [line for line in table if line.startswith(name)]
    assert row.removeprefix(name).split() == ["71.4", "%"] * 3
    assert table[-5:-3] == [
        "to_server: the way to the server",
        "queue: waits for a thread of the server",
    ]
    # The caller's own time.
    assert table[-1] == LEFT_OUT.format("1 part")


def test_what_is_not_seen_is_no_row_among_the_shares() -> None:
    calls = [call(n, 10 * n, 10 * n + 10, served_ms=(10 * n, 10 * n + 1) if n % 4 == 0 else None)
             for n in range(40)]  # fmt: skip
    found = trace(calls)
    table = section(printed(found), SECTIONS[3])
    rows = [line for line in table if ": udf on worker1 " in line]
    assert [row.split(":")[0] for row in rows] == ["to_client", "served", "unseen"]
    assert rows[-1].split(" worker1 ")[1].split() == ["75", "%"]
    last = Analysis.of(found).to_json()["critical_path"][-1]
    assert (last["part"], last["share"]) == ("unseen", pytest.approx(0.75))
    assert (last["ci_low"], last["ci_high"]) == (None, None)


def test_small_parts_of_the_critical_path_are_left_out() -> None:
    calls = [
        call(n, 10 * n, 10 * n + 9, served_ms=(10 * n + 0.0001, 10 * n + 8.9999)) for n in range(40)
    ]
    table = section(printed(trace(calls)), SECTIONS[3])
    assert not any(line.startswith("to_server: udf ") for line in table)
    assert any(line.endswith(LEFT_OUT.format("")) for line in table)
    every = section(printed(trace(calls), row_limit=None), SECTIONS[3])
    assert any(line.startswith("to_server: udf ") for line in every)
    assert not any("left out" in line for line in every)


def test_the_rows_of_the_critical_path_are_counted_without_the_small_parts() -> None:
    """12 functions take a part of the time each; a 13th one takes nearly none."""
    ends = [10.0 * n for n in range(13)]
    calls = [
        call(13 * step + n, 130 * step + ends[n], 130 * step + ends[n] + (9 if n else 0.001),
             served_ms=(130 * step + ends[n], 130 * step + ends[n] + (8 if n else 0.0005)),
             function=f"f{n}")
        for step in range(10) for n in range(13)
    ]  # fmt: skip
    every = section(printed(trace(calls)), SECTIONS[3])
    rows = [line.split() for line in every if len(line.split()) > 6 and line.endswith(" %")]
    assert len(rows) == 12 + 12 + 1
    table = section(printed(trace(calls), row_limit=4), SECTIONS[3])
    assert [line.split() for line in table if line.split() in rows] == rows[:4]
    assert table[-2:] == [LEFT_OUT.format("2 parts"), "4 of 25 rows; --row-limit shows more"]


def test_tables_have_so_many_rows_at_most_and_say_so() -> None:
    calls = [call(n, n, n + 1, served_ms=(n, n + 0.5), function=f"f{n}") for n in range(9)]
    for title in SECTIONS[:3]:
        table = section(printed(trace(calls), row_limit=4), title)
        assert table[-1] == "4 of 9 rows; --row-limit shows more"
        assert sum("rpc_async#" in line for line in table) == 4
    assert sum("f8" in line for line in printed(trace(calls), row_limit=18)) == 5
    assert not [line for line in printed(trace(calls), row_limit=18) if "--row-limit" in line]


def test_what_kineto_cannot_tell_is_skipped_with_the_reason() -> None:
    operators = [operator("aten::add", 0, 1), operator("aten::mul", 1, 3, thread=12)]
    lines = printed(
        replace(trace((), operators, processes=ranks(2, threads=None)), source="kineto")
    )
    assert lines[0].startswith("Recorded by torch.profiler (Kineto): 2 ranks")
    assert "Latency of calls: none, because the trace holds no calls." in lines
    assert f"{SECTIONS[2]}: none, because the trace holds no calls." in lines
    assert "aten::mul" in "\n".join(section(lines, SECTIONS[0]))
    assert section(lines, SECTIONS[4])[1].split() == ["server", "mean", "busy", "busy", "max"]


def test_a_legacy_trace_lacks_the_servers_side() -> None:
    lines = printed(read_traces([LEGACY]))
    assert lines[0].startswith("Recorded by the legacy profiler: 3 ranks")
    reason = "none, because no call is known on its client's side and on its server's."
    assert f"{SECTIONS[2]}: {reason}" in lines


def test_an_empty_trace_has_no_sections() -> None:
    assert printed(trace())[1:] == ["", "No clear limit: the trace holds no calls."]


@pytest.mark.parametrize("found", [served_in_turn(), read_traces(KINETO), read_traces([LEGACY])])
def test_on_80_columns_no_number_is_cut_or_folded(found: Trace) -> None:
    wide = {tuple(row_of_numbers(line)) for line in printed(found) if row_of_numbers(line)}
    narrow = printed(found, width=80, terminal=True)
    assert {tuple(row_of_numbers(line)) for line in narrow if row_of_numbers(line)} == wide
    assert all(len(line) <= 80 for line in narrow if row_of_numbers(line))


def test_a_name_is_never_folded() -> None:
    function = "a_function_with_a_name_that_does_not_fit_on_a_screen_of_80_columns"
    lines = printed(
        trace([call(1, 0, 2, served_ms=(0, 1), function=function)]), width=80, terminal=True
    )
    assert lines.count(f"rpc_async#{function}(worker0 -> worker1)") == 3


def row_of_numbers(line: str) -> list[str]:
    """The numbers at the end of a row of a table; none for other lines."""
    words = line.split()
    numbers = [word for word in words if word.replace(".", "").isdigit() or word == "%"]
    return numbers if len(numbers) > 3 and words[-len(numbers) :] == numbers else []


def test_a_deadlock_is_told_before_what_makes_calls_slow() -> None:
    processes = tuple(replace(rank, rpc_timeout_s=2.0) for rank in ranks(3, threads=1))
    nested = call(2, 10, None, client_rank=1, server_rank=2, parent_call=1, kind="rpc_sync")
    found = trace([call(1, 0, None, served_ms=(1, None)), nested], processes=processes)
    text = "\n".join(printed(found))
    told = "waiting inside served calls at once, with 1 thread: that is a deadlock. Give it more"
    assert told in text
    assert text.index(told) < text.index("No clear limit")
    assert text.count("that is a deadlock") == 1
