"""What is asked of changes, and how the answers read."""

import json
from dataclasses import replace
from typing import Any

import pytest

import tuner
from testing.synthetic import Part, simulate
from tests.present.screen import printed
from tests.trace.forecast.test_changes import in_steps, one_after_another
from tests.trace.forecast.test_sharing import several
from tuner.errors import UsageError
from tuner.present.analysis import Analysis
from tuner.present.changes import of_callers
from tuner.present.trace_summary import Shown, print_trace
from tuner.present.what_if import answer, forecast, read_flags, words_of
from tuner.trace.forecast import ranked
from tuner.trace.forecast.by_callers import ByCallers
from tuner.trace.forecast.change import Change
from tuner.trace.forecast.changes import KINDS
from tuner.trace.forecast.forecasts import Forecast
from tuner.trace.forecast.ranked import COLUMNS
from tuner.trace.model.trace import Trace


def asked(*flags: str) -> list[str]:
    pairs = [[(n, v) for n, _, v in (w.partition("=") for w in words_of(f))] for f in flags]
    return [str(flag) for flag in read_flags(pairs)]


def test_changes_are_asked_for_with_knobs_and_without() -> None:
    assert asked("num_worker_threads=1,2", "udf=together num_worker_threads=4 gil=no") == [
        "num_worker_threads=1", "num_worker_threads=2", "num_worker_threads=4 udf=together gil=no",
    ]  # fmt: skip
    assert asked("num_worker_threads=1, 2") == ["num_worker_threads=1", "num_worker_threads=2"]
    flags = ("callers=4", "lock=no", "A.b=faster:1.5", "*=one-call", "udf=tensors", "a=ahead",
             "push=pickle-once", "to_here=fetch-once")  # fmt: skip
    assert asked(*flags) == [*flags]
    assert asked("to_here=fetch-once udf=tensors") == ["to_here=fetch-once udf=tensors"
    ]  # fmt: skip
    others = ["servers=2", "udf=bytes:4", "udf=batch", "udf=batch:8", "udf=batch:8:1.5x"]
    assert asked(*others) == others


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("udf=together:2", "fetch-once, faster:2 (so many times as fast)"),
        ("udf=faster:1", "fetch-once, faster:2 (so many times as fast)"),
        ("udf=fetch-once", "udf: only to_here takes fetch-once"),
        ("udf=bytes:0.5", "bytes:2 (so many times fewer)"),
        ("udf=faster:2:2x", "'faster:2:2x' is none of"),
        ("udf=batch:1", "batch:8 (calls served as one)"),
        ("udf=batch:2.5", "batch:8 (calls served as one)"),
        ("udf=batch:8:0x", "batch:8:1.5x (in so many times the time of one)"),
        ("udf=batch:8:1.5", "batch:8:1.5x (in so many times the time of one)"),
        ("*=batch:8", "batch is of one function, got '*'"),
        ("callers=²", "callers takes a number from 2 to 64"),
        ("servers=100", "servers takes a number from 2 to 64, got '100'"),
        ("callers=1", "callers takes a number from 2 to 64, got '1'"),
        ("gil=yes", "gil takes no, got 'yes'"),
        ("udf=sideways", "changes are FUNCTION=together"),
    ],
)
def test_a_mistake_is_refused_with_what_is_known(flag: str, said: str) -> None:
    with pytest.raises(UsageError, match="what to forecast") as refused:
        asked(flag)
    assert said in str(refused.value)


def test_a_function_that_the_trace_lacks_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no calls of 'uff'; did you mean udf\?"):
        forecast(one_after_another(), {"uff": "together"})


def test_changes_and_threads_are_forecast_together() -> None:
    found = forecast(one_after_another(), {"udf": "together", "num_worker_threads": [4, 8]})
    assert found["config"].tolist() == [
        "num_worker_threads=4 udf=together", "num_worker_threads=8 udf=together",
    ]  # fmt: skip
    assert found["ratio"].tolist() == pytest.approx([10 / 40, 5 / 40], rel=0.1)


def with_sites(taken: Trace) -> Trace:
    calls = taken.calls.assign(site="main.py:42", defined="store.py:9")
    return replace(taken, calls=calls)


def test_the_changes_of_a_trace_are_rows_best_first() -> None:
    found = tuner.changes(with_sites(in_steps(request_bytes=100)))
    assert tuple(found.columns) == COLUMNS
    assert found["ratio"].is_monotonic_increasing
    together = found.iloc[0]
    assert (together["change"], together["function"]) == ("together", "udf")
    assert together["site"] == "main.py:42"
    faster = found[(found["change"] == "faster") & (found["function"] == "udf")].iloc[0]
    assert faster["site"] == "store.py:9"
    assert "at most" in faster["condition"]
    assert ((found["ratio_low"] <= found["ratio"]) & (found["ratio"] <= found["ratio_high"])).all()


@pytest.mark.parametrize("few", [5])
def test_what_few_calls_do_is_no_row(few: int) -> None:
    assert tuner.changes(one_after_another(calls=few)).empty


def shown(taken: Trace, **facts: Any) -> str:
    return printed(print_trace, Analysis.of(taken, finds_changes=True, **facts), Shown())


def test_the_screen_says_what_would_make_it_faster_and_what_not() -> None:
    text = shown(with_sites(in_steps(request_bytes=100)), forecasts_unasked=True)
    first, second = text.split("What would make it faster (forecasts):\n")[1].splitlines()[:2]
    assert first.startswith("  main.py:42  issue the 8 calls of udf together  3.33 times (")
    assert second.startswith("  store.py:9  udf twice as fast")
    assert "No gain: other numbers of threads, an interpreter without a GIL." in text
    assert "instead of 16 it takes as long" not in text
    assert len(text.splitlines()) <= 30


def test_what_there_was_no_time_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked, "rows_of", lambda *_: ([], 12))
    taken = in_steps(request_bytes=100)
    assert "12 more changes were not forecast, for lack of time." in shown(taken)
    assert Analysis.of(taken, finds_changes=True).to_json()["changes_left_out"] == 12


def test_threads_that_gain_are_in_the_list() -> None:
    text = shown(simulate([Part("sleep", 10)], threads=2, at_once=8), forecasts_unasked=True)
    assert "8 instead of 2 threads" in text


def test_the_table_and_the_document_have_all_changes() -> None:
    analysis = Analysis.of(in_steps(request_bytes=100), finds_changes=True)
    text = printed(print_trace, analysis, Shown(tables=("changes",)))
    assert "issue the 8 calls of udf together (rpc_async)" in text
    assert "if they do not need each other's results" in text
    rows = json.loads(json.dumps(analysis.to_json()["changes"]))
    assert [set(row) for row in rows] == [set(COLUMNS)] * len(rows)
    assert rows[0]["site"] is None
    assert Analysis.of(in_steps()).to_json()["changes"] == []


def test_what_was_asked_is_answered_alone() -> None:
    taken = one_after_another()
    pairs = [[("udf", "together")]]
    (found,) = answer(taken, read_flags(pairs))
    assert found.to_json()["changes"] == ["udf=together"]
    assert found.found.ratio == pytest.approx(3 / 40, rel=0.1)


def test_a_line_is_named_without_its_folders_and_a_long_sentence_takes_two_lines() -> None:
    taken = one_after_another()
    at = "a/very/long/way/to/the/file/of/a_program_with_a_long_name.py:42"
    taken = replace(taken, calls=taken.calls.assign(site=at).astype({"site": "category"}))
    lines = printed(print_trace, Analysis.of(taken, finds_changes=True), Shown()).splitlines()
    [first] = [n for n, line in enumerate(lines) if "a_program_with_a_long_name.py:42" in line]
    assert lines[first].startswith("  a_program_with_a_long_name.py:42  issue the calls")
    assert lines[first + 1].split() == ["of", "udf", "together"]


def test_the_table_and_the_document_say_how_many_callers_are_served() -> None:
    taken = several(Part("sleep", 5), callers=1, calls=60, threads=1, think_ms=14.8)
    analysis = Analysis.of(taken, finds_changes=True)
    text = printed(print_trace, analysis, Shown(tables=("changes",)))
    assert "More callers: with 4 the threads of worker1 can take no more; 3." in " ".join(
        text.split()
    )
    assert "times the calls of 1 in the same time." in " ".join(text.split())
    rows = json.loads(json.dumps(analysis.to_json()["callers"]))
    assert next(row["callers"] for row in rows if row["is_full"]) == 4
    assert Analysis.of(taken).to_json()["callers"] == []


def by_number(*throughputs: float, full: int | None = None, limit: str = "") -> list[ByCallers]:
    return [
        ByCallers(2 * n, n, Forecast(ratio=n / each, ratio_low=n / each, ratio_high=n / each),
                  full is not None and n >= full, limit)
        for n, each in enumerate(throughputs, 1)
    ]  # fmt: skip


def test_what_more_callers_do_is_a_line() -> None:
    (free,) = of_callers(by_number(1, 2, 3))
    assert free == "More callers: up to 6 all gain; 3 times the calls of 2 in the same time."
    (none,) = of_callers(by_number(1, 1, full=1, limit="the GIL of ps"))
    assert none == "More callers gain nothing: with 2 the GIL of ps can take no more."
    (unknown,) = of_callers(by_number(1, 1.5, 1.5, full=2))
    assert "with 4 they gain little more; 1.5 times" in unknown
    assert of_callers(by_number(1)) == []


def test_the_sentences_of_changes_of_many() -> None:
    said: dict[str, dict[str, Any]] = {
        "8 calls of udf served as one (async_execution)": {"kind": "batch", "number": 8},
        "8 calls of udf served as one, in 1.5 times the time of one (async_execution)": {
            "kind": "batch", "number": 8, "times": 1.5,
        },
        "half the bytes of udf": {"kind": "bytes"},
        "1/4 of the bytes of udf": {"kind": "bytes", "number": 4},
        "3 servers in place of each": {"kind": "servers", "number": 3},
    }  # fmt: skip
    for sentence, facts in said.items():
        change = Change(function="udf", **facts)
        assert KINDS[change.kind].say(change) == sentence
