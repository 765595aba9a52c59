import math
from unittest.mock import Mock, patch

import tuner
from testing.fakes import threads_of
from tests.searching.tuning import (
    INTERVALS,
    Tune,
    by_interval,
    by_threads,
    forecasting,
    forecasting_intervals,
    scaling,
)
from tuner.present.sentences import sentences_of
from tuner.study.storage.address import StudyPlace
from tuner.study.storage.opening import load_study
from tuner.trace.forecast.forecasts import Forecast, Model, WhatIf

FORECAST = {1: 4.0, 2: 2.0, 4: 1.0, 8: 1.0}


def test_first_worlds_come_as_the_forecast_has_it(tune: Tune) -> None:
    with forecasting({1: math.inf, 2: 3.0, 4: 1.2, 8: 0.7}):
        answer = tune()
    first = [threads_of(order.config) for order in tune.launcher.orders if order.steps is None]
    assert first == [16, 8, 4, 2, 1]
    found = [row.forecast and row.forecast.ratio for row in answer.by_trial.values()]
    assert found == [None, None, 3.0, 1.2, 0.7]
    assert "num_worker_threads=1 was forecast to deadlock, and did not." in sentences_of(answer)


def test_what_is_far_behind_waits_while_others_decide(tune: Tune) -> None:
    with forecasting(FORECAST):
        answer = tune(step_ms=by_threads({1: 3.0, 2: 3.5, 4: 1.5, 8: 1.5, 16: 2.0}), sigma=0.02)
    assert answer.verdict == "better"
    # A first world that is 2.5 times as slow is dropped without a forecast.
    waited = answer.by_trial[1]
    assert (waited.samples, waited.outcome) == (0, "eliminated")
    assert waited.eliminated == "forecast to take 4 times as long, so it comes last"


def test_what_waited_is_measured_before_the_baseline_is_kept(tune: Tune) -> None:
    with forecasting(FORECAST):
        answer = tune(step_ms=by_threads({1: 3.0, 2: 3.5, 4: 2.3, 8: 2.3, 16: 2.0}), sigma=0.01)
    assert answer.verdict == "keep-baseline"
    assert min(row.samples for row in answer.rows) > 0
    assert [text for text in tune.heard.told if text.startswith("measured now")] == [
        "measured now, to exclude that it is better: num_worker_threads=1, num_worker_threads=2"
    ]


def test_a_forecast_that_a_first_world_contradicts_keeps_nothing_out(tune: Tune) -> None:
    with forecasting({1: 0.5, 2: 1.0, 4: 3.0, 8: 1.0}):
        answer = tune(step_ms=scaling, sigma=0.02)
    assert answer.by_trial[3].samples > 0


def test_a_resumed_search_keeps_its_forecasts(tune: Tune) -> None:
    with forecasting(FORECAST):
        tune.interrupted(stops=lambda each: each.worlds == 3)
    with forecasting(dict.fromkeys(FORECAST, 1.0)):
        answer = tune(resume=True)
    found = [row.forecast for row in answer.by_trial.values()]
    assert [each.ratio for each in found if each is not None] == [*FORECAST.values()]


def test_a_forecast_of_threads_is_none_of_another_knob(tune: Tune) -> None:
    with forecasting(FORECAST):
        answer = tune(space={"num_worker_threads": [4], "transports": ["default", "uv"]})
    forecast = [row.config.for_role("server") for row in answer.rows if row.forecast]
    assert [each["transports"] for each in forecast] == [None]
    assert len(answer.rows) == 3


def test_a_forecast_that_is_not_sure_is_not_told_unasked(tune: Tune) -> None:
    unsure = Forecast(ratio=1.0, ratio_low=0.5, ratio_high=2.0)
    space = {"num_worker_threads": [1, 4, 16], "switch_interval": ["5ms", "1ms"]}
    with patch.object(Model, "of", return_value=Mock(forecast=lambda what_if: unsure)):
        answer = tune(space=space, budget="26s", overhead_s=2.0)
    assert answer.not_reached
    assert answer.forecasts
    assert not any(sentence.startswith("Forecast") for sentence in sentences_of(answer))


def test_why_there_is_no_forecast_is_said(tune: Tune) -> None:
    said = "No forecast of other numbers of threads: the model does not hold."
    with patch.object(Model, "of", return_value="the model does not hold"):
        assert said in sentences_of(tune())
        assert said in sentences_of(tune(resume=True))
    refused = Forecast(why_not="it depends on what the trace does not show")
    with patch.object(Model, "of", return_value=Mock(forecast=lambda what_if: refused)):
        answer = tune(overwrite=True)
    assert any(sentence.endswith(f": {refused.why_not}.") for sentence in sentences_of(answer))


def test_which_threads_may_deadlock_is_said_beside_the_forecasts_of_others(tune: Tune) -> None:
    doubt = Forecast(why_not="fewer than 3 threads of a may deadlock", may_deadlock=True)
    told = Forecast(ratio=1.0, ratio_low=0.9, ratio_high=1.1)

    def forecast(what_if: WhatIf) -> Forecast:
        return doubt if min((what_if.threads or {}).values()) < 3 else told

    with patch.object(Model, "of", return_value=Mock(forecast=forecast)):
        answer = tune()
    found = {threads_of(row.config): row.forecast for row in answer.rows}
    assert [threads for threads, each in sorted(found.items()) if each is None] == [1, 2, 16]
    assert f"No forecast of fewer threads: {doubt.why_not}." in sentences_of(answer)


def first_intervals(tune: Tune) -> list[float]:
    first = [order.config for order in tune.launcher.orders if order.steps is None]
    return [1e3 * float(str(each.for_role("server")["switch_interval"])) for each in first]


def test_switch_intervals_come_as_the_forecast_has_them(tune: Tune) -> None:
    with forecasting_intervals({20.0: 2.0, 2.0: 0.7, 1.0: 0.5}):
        answer = tune(space=INTERVALS, step_ms=by_interval, sigma=0.02)
    assert first_intervals(tune) == [5, 1, 2, 20]
    assert str(answer.best) == "switch_interval=1ms"
    slow = answer.by_trial[1]
    assert (slow.label, slow.samples) == ("switch_interval=20ms", 0)
    found = {row.label: row.forecast and row.forecast.ratio for row in answer.rows}
    assert found["switch_interval=1ms"] == 0.5
    again = tune(space=INTERVALS, resume=True, step_ms=by_interval)
    assert {row.label: row.forecast and row.forecast.ratio for row in again.rows} == found


def test_without_a_forecast_switch_intervals_come_as_the_space_has_them(tune: Tune) -> None:
    with forecasting_intervals({}):
        answer = tune(space=INTERVALS)
    assert first_intervals(tune) == [5, 20, 2, 1]
    said = "No forecast of other switch intervals: it depends on whether calls wait for a GIL."
    assert said in sentences_of(answer)


def test_an_interval_that_is_not_forecast_leaves_the_forecast_of_the_threads(tune: Tune) -> None:
    def forecast(what_if: WhatIf) -> Forecast:
        if what_if.intervals_s:
            return Forecast(why_not="it depends on whether calls wait for a GIL")
        ratio = {1: 4.0, 16: 1.0}[(what_if.threads or {})["server"]]
        return Forecast(ratio=ratio, ratio_low=ratio, ratio_high=ratio)

    space = {"num_worker_threads": [1, 16], "switch_interval": ["5ms", "1ms"]}
    with patch.object(Model, "of", return_value=Mock(forecast=forecast)):
        answer = tune(space=space)
    first = [str(order.config) for order in tune.launcher.orders if order.steps is None]
    assert [each.partition(" ")[0][-2:] for each in first] == ["16", "16", "=1", "=1"]
    told = {row.label: row.forecast is not None for row in answer.rows}
    assert [label for label, is_told in told.items() if is_told] == [
        "num_worker_threads=1 switch_interval=5ms"
    ]


def test_a_study_that_had_its_intervals_take_turns_opens_and_is_resumed(tune: Tune) -> None:
    """Older versions noted what runs showed in which values took turns."""
    with forecasting_intervals({20.0: 2.0, 2.0: 0.7, 1.0: 0.5}):
        tune.interrupted(space=INTERVALS, stops=lambda each: each.worlds == 3)
    store = load_study(StudyPlace.named("udf", out=tune.folder))
    store.note("live", {"configs": [{}, {}], "gains": [[0.0, 0.4]] * 4, "remembers": True})
    assert "live" not in tuner.load_study(tune.folder).to_json()
    answer = tune(space=INTERVALS, resume=True, step_ms=by_interval)
    assert str(answer.best) == "switch_interval=1ms"
