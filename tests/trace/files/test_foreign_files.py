"""Files as other tools and programs wrote them: the right values, or what was found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.present.screen import Screen
from tuner.errors import UsageError
from tuner.json_text import visible_json
from tuner.present.analysis import Analysis
from tuner.present.figures import write_timeline_figure
from tuner.present.figures.timeline_data import timeline
from tuner.present.trace_summary import Shown, print_trace
from tuner.present.trace_tables import TABLES
from tuner.trace.files.reader import read_traces

HERE = Path(__file__).parents[1] / "foreign"
F, G = "rpc_async#f(worker0 -> worker1)", "rpc_async#g(worker0 -> worker2)"
CALL = "rpc_sync#f(w0 -> w1)"


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a person reads off a file."""

    self_us: dict[str, float]
    """Self CPU by name: of all calls and operators."""
    calls: int = 0
    operators: int
    said: Sequence[str] = ()
    """Parts of what the default screen says."""
    unsaid: Sequence[str] = ()
    ranks: Sequence[int] = (0,)


def of_add(us: float, **truth: Any) -> Truth:
    return Truth(**{"self_us": {"aten::add": us}, "operators": 1, **truth})


def left_out(number: int, bytes_: int) -> str:
    events = "event" if number == 1 else "events"
    return f"{number} {events} not valid as JSON ({bytes_} bytes)"


UNSEEN = "does not show how any call was served"
RIGHT: dict[str, Truth] = {
    "annotated_call": Truth(
        self_us={CALL: 50, "aten::add": 50}, calls=1, operators=1,
        said=("For 40 % of the time, w0 waited for f on w1.", UNSEEN),
    ),
    "annotation_other_pid": of_add(
        5, ranks=(5,), said=("1 of 8 ranks (rank 5)", "not 1 of the 2 events: 1 user_annotation")
    ),
    "backslash": of_add(5, said=(left_out(1, 96),), unsaid=("breaks off",)),
    "bare_array": Truth(self_us={"aten::add": 5, "aten::mul": 5}, operators=2),
    "call_as_cpu_op": Truth(self_us={CALL: 95, "aten::add": 5}, calls=1, operators=1),
    "call_rank0": Truth(self_us={CALL: 95, "aten::add": 5}, calls=1, operators=1),
    "call_rank0 call_rank1": Truth(
        self_us={CALL: 95, "aten::add": 5, "aten::mul": 30}, calls=1, operators=2, ranks=(0, 1),
        said=("0 is call_rank0.json, by the names in their calls; 1 is call_rank1.json, by",),
    ),
    "cut_rank0": Truth(self_us={"aten::add": 5, "aten::mul": 5}, operators=2,
                       said=("breaks off at byte 305, after 2 complete events", "1 of 2 ranks",
                             "from when its times count is not known")),
    "first second": Truth(
        self_us={"aten::add": 5, "aten::mul": 5}, operators=2, ranks=(0, 1),
        said=("0 is first.json, 1 is second.json, by the order of the files' names",),
    ),
    "host_a": of_add(2e6, said=("1 of 2 ranks",)),
    "inf": of_add(5, said=(left_out(1, 116),)),
    "kineto_calls": Truth(
        self_us={"rpc_async#g(worker0 -> worker1)": 5_500_000 - 50_000 - 2_600,
                 "aten::add": 50_000}, calls=5, operators=1,
        said=("For 89 % of the time, the critical path is g on worker1", UNSEEN,
              "their servers' side is not known"),
    ),
    "legacy_calls_not_drawn": Truth(
        self_us={"rpc_async#g(worker0 -> worker1)": 5_500_000 - 50_000 - 2_600,
                 "rpc_remote#f(worker0 -> worker0)": 1000, "aten::add": 50_000},
        calls=6, operators=1, said=("For 88 % of the time, the critical path is g on worker1",),
        unsaid=("as a single call",),
    ),
    "legacy_double": Truth(self_us={CALL: 50, f"{CALL}#remote_op: aten::add": 50}, calls=1,
                           operators=1, ranks=(0, 1), said=("may show overlapping calls",)),
    "legacy_nested": Truth(self_us={CALL: 50, "rpc_sync#g(w1 -> w0)": 50}, calls=2, operators=0,
                           ranks=(0, 1), said=("For 100 % of the time, w0 waited for f on w1.",)),
    "libtorch_record_profile": of_add(5),
    "merged_text_pids": of_add(10, operators=2, ranks=(0, 1)),
    "nan": of_add(5, said=(left_out(1, 121),)),
    "odd_quote": of_add(25, operators=5, said=(left_out(1, 82),), unsaid=("breaks off",)),
    "odd_quote_legacy": of_add(35, operators=7, said=(left_out(1, 96),), unsaid=("breaks off",)),
    "one_of_eight": of_add(50, operators=5, ranks=(3,), said=("1 of 8 ranks (rank 3)",)),
    "operator_category": of_add(50, unsaid=("Only operators and calls",)),
    "overlap_kineto": Truth(self_us={F: 60, G: 60, "aten::add": 40}, calls=2, operators=1),
    "overlap_nested_kineto": Truth(
        self_us={F.replace("#f", "#f0"): 100, F.replace("#f", "#f1"): 80,
                 F.replace("#f", "#f2"): 60, "aten::add": 40}, calls=3, operators=1,
    ),
    "same_host_a same_host_b": Truth(
        self_us={"aten::add": 2000, "aten::mul": 2000}, operators=2, ranks=(0, 1),
        unsaid=("clocks of different hosts", "by the order"),
    ),
    "tail_17MB.json.gz": of_add(50, operators=5, unsaid=("breaks off",)),
    "text_times_array": of_add(5.5),
    "text_times_object": of_add(5.5),
    "touching_1970": Truth(self_us={"parent": 0, "a": 10, "b": 100}, operators=3),
    "touching_relative": Truth(self_us={"parent": 0, "a": 10, "b": 100}, operators=3),
    "unread_events": of_add(
        100, said=("101 of the 102 events: 50 kernel, 50 python_function, 1 user_annotation",)
    ),
    "unrelated_a": of_add(50, operators=5, said=("1 of 8 ranks (rank 0)",)),
    "whole_rank1": Truth(self_us={"aten::add": 5, "aten::mul": 5, "aten::sum": 5}, operators=3,
                         ranks=(1,), said=("1 of 2 ranks (rank 1)",)),
}  # fmt: skip
REFUSED = {
    "cut_rank0 whole_rank1": "breaks off before the base time that its times count from",
    "gpu_only": "no operator and no call in it, only 1 event of GPUs (kernel): profile the CPU",
    "host_a host_b": "58 s after the end of the earlier ones. If they are of one run, the clocks",
    "other_json": 'an object that begins with "tool", without "traceEvents"',
    "perfetto.pftrace": "a protobuf, as Perfetto writes it, not JSON",
    "unrelated_a unrelated_b": "are both of rank 0, but not of one run: they were recorded up to "
    "1390 days apart",
    "viztracer_like": "not of torch.profiler: no operator and no call in it, but 1 event of other "
    "categories (fee)",
    "zipped.zip": "a zip archive: unpack it",
}


def files(names: str) -> list[Path]:
    return [HERE / (name if "." in name else f"{name}.json") for name in names.split()]


def test_every_file_has_its_truth() -> None:
    known = {path.name for names in (*RIGHT, *REFUSED) for path in files(names)}
    assert known == {path.name for path in HERE.iterdir()}


@pytest.mark.parametrize(("names", "truth"), RIGHT.items(), ids=RIGHT)
def test_the_values_are_those_of_the_file(names: str, truth: Truth, tmp_path: Path) -> None:
    trace = read_traces(files(names))
    analysis = Analysis.of(trace)
    assert (len(trace.calls), len(trace.operators)) == (truth.calls, truth.operators)
    assert [rank.rank for rank in trace.ranks] == [*truth.ranks]
    found = analysis.recipe_table.groupby("Name")["Self CPU"].sum().to_dict()
    assert found == pytest.approx(truth.self_us)
    screen = Screen(width=1000)
    print_trace(analysis, screen.console, Shown())
    assert [part for part in truth.said if part not in screen.text] == []
    assert [part for part in truth.unsaid if part in screen.text] == []
    for shown in (Shown(whole=True), *(Shown(tables=[name]) for name in TABLES)):
        print_trace(analysis, Screen(width=100).console, shown)
    visible_json(analysis.to_json())
    write_timeline_figure([(names, trace)], tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size


@pytest.mark.parametrize(("names", "found"), REFUSED.items(), ids=REFUSED)
def test_a_refusal_says_what_was_found(names: str, found: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_traces(files(names))
    assert found in str(refused.value)


@pytest.mark.parametrize(
    ("name", "most"),
    [("legacy_calls_not_drawn", {"worker0": (1, 5)}), ("kineto_calls", {"worker0": (0, 5)}),
     ("legacy_nested", {"w0": (1, 1), "w1": (1, 1)}), ("legacy_double", {"w0": (0, 1),
                                                                       "w1": (1, 0)})],
)  # fmt: skip
def test_calls_under_way_are_drawn_though_nobody_knows_how_they_were_served(
    name: str, most: dict[str, tuple[int, int]]
) -> None:
    drawn = timeline(read_traces(files(name)))
    assert drawn.length_ms > 0
    found = {
        server.label: tuple(
            max((level for _, level in levels), default=0)
            for levels in (server.in_flight, server.issued)
        )
        for server in drawn.servers
    }
    assert found == most
