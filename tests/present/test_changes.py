"""What is asked of changes, and how the answers read."""

import json
from dataclasses import replace
from typing import Any

import pytest

import tuner
from tests.present.screen import printed
from tests.trace.forecast.test_changes import in_steps, one_after_another
from tests.trace.synthetic import Part, simulate
from tuner.errors import UsageError
from tuner.present.analysis import Analysis
from tuner.present.trace_summary import Shown, print_trace
from tuner.present.what_if import answer, forecast, read_flags, words_of
from tuner.trace.forecast.ranked import COLUMNS
from tuner.trace.model.trace import Trace


def asked(*flags: str) -> list[str]:
    pairs = [[(n, v) for n, _, v in (w.partition("=") for w in words_of(f))] for f in flags]
    return [str(each) for each in read_flags(pairs)]


def test_changes_are_asked_for_with_knobs_and_without() -> None:
    assert asked("num_worker_threads=1,2", "udf=together num_worker_threads=4 gil=no") == [
        "num_worker_threads=1", "num_worker_threads=2", "num_worker_threads=4 udf=together gil=no",
    ]  # fmt: skip
    assert asked("num_worker_threads=1, 2") == ["num_worker_threads=1", "num_worker_threads=2"]
    assert asked("callers=4", "lock=no", "A.b=faster:1.5", "*=one-call") == [
        "callers=4", "lock=no", "A.b=faster:1.5", "*=one-call",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("udf=together:2", "together, one-call and faster:2"),
        ("udf=faster:1", "together, one-call and faster:2"),
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
    assert first.startswith("  main.py:42  issue the 8 calls of udf together  3.29 times (")
    assert second.startswith("  store.py:9  udf twice as fast")
    assert "No gain: other numbers of threads, an interpreter without a GIL." in text
    assert "instead of 16 it takes as long" not in text
    assert len(text.splitlines()) <= 30


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
    [first] = [n for n, each in enumerate(lines) if "a_program_with_a_long_name.py:42" in each]
    assert lines[first].startswith("  a_program_with_a_long_name.py:42  issue the calls")
    assert lines[first + 1].split() == ["of", "udf", "together"]
