"""What can be asked of a forecast, and how the answers read."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from testing.synthetic import Part, ranks, simulate
from tests.present.screen import printed
from tests.trace.analyze.diagnoses import SCENARIOS
from tests.trace.forecast.test_switching import beside_a_computing_thread
from tuner.errors import UsageError
from tuner.present.analysis import Analysis
from tuner.present.trace_summary import Shown, print_trace
from tuner.present.what_if import (
    DISAGREE,
    Answered,
    agreed,
    answer,
    ask_by_default,
    forecast,
    in_a_line,
    read_what_if,
    reasons,
)
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.forecast.forecasts import Forecast
from tuner.trace.model.trace import Trace

THREADS = [("num_worker_threads", "1,2,4,8")]


def sleeping(threads: int = 16, **facts: Any) -> Trace:
    return simulate([Part("sleep", 10)], threads=threads, at_once=8, **facts)


def answered(*found: Forecast) -> list[Answered]:
    return [
        Answered(asked=asked, found=each)
        for asked, each in zip(read_what_if(THREADS), found, strict=False)
    ]


def told(ratio: float) -> Forecast:
    return Forecast(ratio=ratio, ratio_low=0.9 * ratio, ratio_high=1.1 * ratio)


STUCK = Forecast(ratio=math.inf, ratio_low=math.inf, ratio_high=math.inf, deadlock="f on worker1")
UNKNOWN = Forecast(why_not="it depends")
NOTE = "(a forecast; rpc-tuner search measures it)."


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([told(7.61), told(3.8), told(1.9), told(1)],
         "With 1, 2, 4, 8 threads instead of 16: 7.6, 3.8, 1.9, 1.0 times as long"),
        ([told(1), told(1.01)], "With 1, 2 threads instead of 16 it takes as long"),
        ([STUCK, STUCK, told(1.5)],
         "With 1, 2 threads instead of 16 it deadlocks, with 4: 1.5 times as long"),
        ([STUCK, told(1), told(1)],
         "With 1 thread instead of 16 it deadlocks, with 2, 4 it takes as long"),
        ([STUCK], "With 1 thread instead of 16 it deadlocks"),
        ([told(2), UNKNOWN], ""),
        ([replace(told(2), ratio_high=3.0)], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_what_is_sure_is_said_in_a_line(found: list[Forecast], said: str) -> None:
    line = in_a_line(sleeping(), answered(*found))
    assert line == (f"{said} {NOTE}" if said else "")
    assert in_a_line(sleeping(steps=2), answered(*found)) == ""


def test_what_may_deadlock_is_said_beside_what_is_sure() -> None:
    doubt = Forecast(why_not="fewer than 3 threads of a may deadlock", may_deadlock=True)
    said = "Fewer than 3 threads of a may deadlock."
    line = in_a_line(sleeping(), answered(doubt, doubt, told(1), told(1)))
    assert line == f"With 4, 8 threads instead of 16 it takes as long {NOTE} {said}"
    assert in_a_line(sleeping(), answered(doubt, doubt, UNKNOWN)) == said
    assert in_a_line(sleeping(), answered(doubt)) == said


def test_a_line_comes_unasked_where_all_processes_have_as_many_threads() -> None:
    taken = sleeping()
    line = f"With 1, 2, 4, 8 threads instead of 16: 7.9, 3.9, 2.0, 1.0 times as long {NOTE}"
    assert f"\n{line}\n" in printed(
        print_trace, Analysis.of(taken, forecasts_unasked=True), Shown(), width=200
    )
    assert "forecast" not in printed(print_trace, Analysis.of(taken), Shown())
    busy = Analysis.of(replace(taken, others_share=0.4), forecasts_unasked=True)
    shown = printed(print_trace, busy, Shown(), width=200)
    said = "The machine was busy: others took 40 % of its CPUs while this was recorded.\n"
    assert shown.startswith(said)
    assert "(a forecast of a busy machine; rpc-tuner search measures it)" in shown
    quiet = Analysis.of(replace(taken, others_share=0.05), forecasts_unasked=True)
    assert "busy machine" not in printed(print_trace, quiet, Shown(), width=200)
    mixed = (ranks(threads=4)[0], ranks(threads=8)[1])
    assert ask_by_default(replace(taken, ranks=mixed)) == []


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("cpus", "many")], "cpus: must be a whole number, got 'many'"),
        ([("num_worker_threads", "1..300")], "more than 200 configurations are too many"),
        ([("workers.num_worker_threads", "1")], "unknown role 'workers'"),
    ],
)
def test_mistakes_are_told(entries: list[tuple[str, object]], message: str) -> None:
    with pytest.raises(UsageError, match="what to forecast") as raised:
        answer(sleeping(), read_what_if(entries))
    assert message in str(raised.value)


def test_a_frame_has_every_combination() -> None:
    space = {"num_worker_threads": [1, 8], "worker.num_worker_threads": "2", "cpus": [1, 64]}
    found = forecast(sleeping(), space)
    assert found["config"].tolist() == [
        f"num_worker_threads={threads} worker.num_worker_threads=2 cpus={cpus}"
        for threads in (1, 8)
        for cpus in (1, 64)
    ]
    assert found["ratio"].tolist() == pytest.approx([4] * 4, rel=0.1)


def test_what_the_model_does_not_know_is_refused() -> None:
    (found,) = answer(sleeping(), read_what_if([("cpu_binding", "equal")]))
    assert found.found.why_not == (
        "what cpu_binding changes is not in the model; rpc-tuner search measures it"
    )
    assert found.to_json() == {
        "config": {"*": {"cpu_binding": "equal"}}, "changes": [], "ratio": None, "ratio_low": None,
        "ratio_high": None, "deadlock": "", "why_not": found.found.why_not,
    }  # fmt: skip


def test_reasons_are_given_once() -> None:
    assert [*reasons(answered(STUCK, STUCK, UNKNOWN, told(1)))] == [
        "num_worker_threads=1 and num_worker_threads=2: the driver waits for f on worker1.",
        "num_worker_threads=4: it depends.",
    ]
    assert [*reasons(answered(UNKNOWN, UNKNOWN))] == ["No forecast: it depends."]


def test_a_forecast_that_was_asked_for_is_a_table_on_the_screen() -> None:
    analysis = Analysis.of(sleeping(), asked=read_what_if(THREADS))
    text = printed(print_trace, analysis, Shown(), width=100)
    assert "num_worker_threads=2  3.94 (3.36 to 4.62)" in text
    assert len(text.splitlines()) <= 30
    assert [each["ratio"] for each in analysis.to_json()["what_if"]] == pytest.approx(
        [8, 4, 2, 1], rel=0.1
    )


@pytest.mark.parametrize("name", [*SCENARIOS])
def test_a_diagnosis_and_the_forecasts_beside_it_do_not_disagree(name: str) -> None:
    taken = SCENARIOS[name]()
    said = diagnose(taken)
    answers = answer(taken, ask_by_default(taken, said.suggestions))
    assert agreed(said, answers, taken) == (said, answers)


def test_where_they_disagree_neither_speaks_of_more_threads() -> None:
    taken = sleeping(threads=2)
    said = diagnose(taken)
    assert said.wants_threads
    as_long, half = (
        [Answered(asked=each, found=told(ratio)) for each in read_what_if(THREADS)]
        for ratio in (1.0, 0.5)
    )
    left, answers = agreed(said, as_long, taken)
    assert not re.search("threads? help|num_worker_threads", left.text)
    assert left.text.startswith("worker1 is the limit: ")
    assert [each.found.why_not for each in answers] == ["", "", DISAGREE, DISAGREE]
    denies = replace(left, enough_threads=("worker1",))
    assert denies.denies_threads
    found = [each.found.why_not for each in agreed(denies, half, taken)[1]]
    assert found == ["", "", DISAGREE, DISAGREE]
    assert agreed(denies, as_long, taken) == (denies, as_long)
    assert agreed(said, half, taken) == (said, half)
    # A gain is sure, by however much.
    wide = [replace(each, found=A_WIDE_GAIN) for each in half]
    assert agreed(said, wide, taken) == (said, wide)
    found = [each.found.why_not for each in agreed(denies, wide, taken)[1]]
    assert found == ["", "", DISAGREE, DISAGREE]


def test_a_gain_by_threads_is_named_with_its_interval_however_wide() -> None:
    def shown(*found: Forecast) -> str:
        own = replace(analysis, what_if=answered(*found))
        return " ".join(printed(print_trace, own, Shown(), width=100).split())

    analysis = Analysis.of(sleeping(threads=2), forecasts_unasked=True, finds_changes=True)
    gain = "4 instead of 2 threads (num_worker_threads) 2.50 times (1.43 to 3.33)"
    assert gain in shown(told(2), told(1), A_WIDE_GAIN)
    none = replace(A_WIDE_GAIN, ratio_high=0.97)
    assert "instead of 2 threads" not in shown(told(2), told(1), none)
    assert "instead of 2 threads (num" not in shown(STUCK, told(1), A_WIDE_GAIN)


A_WIDE_GAIN = Forecast(ratio=0.4, ratio_low=0.3, ratio_high=0.7)


def beside_a_main(there_ms: float = 5.4) -> Trace:
    return beside_a_computing_thread(there_ms=(there_ms,))


def test_another_switch_interval_is_asked_for_as_a_knob() -> None:
    found = forecast(beside_a_main(), {"switch_interval": "1ms,5ms", "num_worker_threads": [4, 8]})
    assert found["config"].tolist()[0] == "num_worker_threads=4 switch_interval=1ms"
    assert found["ratio"].tolist() == pytest.approx([0.33, 0.33, 1.0, 1.0], abs=0.02)


def test_an_interval_that_is_suggested_is_forecast_unasked_and_named_with_its_gain() -> None:
    taken = beside_a_main()
    analysis = Analysis.of(taken, forecasts_unasked=True, finds_changes=True)
    asked = [str(each.asked) for each in analysis.what_if if each.asked.is_of_interval]
    assert asked == ["switch_interval=1ms", "switch_interval=200us"]
    text = printed(print_trace, analysis, Shown(), width=120)
    assert "switch_interval=200us instead of 5ms" in text
    assert "--space switch_interval=5ms,1ms,0.2ms tries it" in " ".join(text.split())


def test_an_interval_that_is_forecast_to_gain_nothing_is_not_suggested() -> None:
    taken = beside_a_main()
    said = diagnose(taken)
    assert [suggestion.knob for suggestion in said.suggestions] == ["switch_interval"]
    asked = read_what_if([("switch_interval", "1ms,200us")])
    for ratio, is_left in ((1.0, False), (0.5, True)):
        answers = [Answered(asked=each, found=told(ratio)) for each in asked]
        left, _ = agreed(said, answers, taken)
        assert ("switch_interval" in left.text) == bool(left.suggestions) == is_left
