"""Which configuration is said to fail more calls than the baseline, or to make fewer."""

import random

import pytest

from tuner.decide.lost_calls import Calls, CallTally, LostCalls, lost_calls


def tally(*failed: int, made: int = 24, function: str = "work") -> CallTally:
    """Worlds in which so many of the calls failed."""
    found = CallTally()
    for each in failed:
        found.add(Calls(made, each, {function: made}))
    return found


def judged(own: CallTally, baseline: CallTally, configs: int = 1) -> LostCalls | None:
    return lost_calls(own, baseline, alpha=0.05, configs=configs)


def test_one_world_is_a_suspicion_and_two_show_it() -> None:
    first = judged(tally(20), tally(0))
    assert first is not None
    assert not first.is_shown
    assert first.text == "fails 20 of 24 calls of work, the baseline none"
    again = judged(tally(20, 20), tally(0, 0, 0), configs=30)
    assert again is not None
    assert again.is_shown
    assert again.text == "fails 40 of 48 calls of work, the baseline none"


def test_a_world_that_has_no_other_may_show_it() -> None:
    found = lost_calls(tally(20), tally(0), alpha=0.05, configs=3, once=True)
    assert found is not None
    assert found.is_shown


def test_what_the_baseline_fails_as_often_is_no_loss() -> None:
    assert judged(tally(20, 20), tally(20, 21)) is None
    assert judged(tally(0, 0), tally(20, 21)) is None


def test_a_single_call_that_fails_each_time_is_no_answer_long_before_it_is_shown() -> None:
    own, baseline = tally(1, 1, 1, made=1), tally(0, 0, 0, 0, made=1)
    found = judged(own, baseline)
    assert found is not None
    assert not found.is_shown
    assert judged(tally(1, made=1), tally(0, made=1)) is None


def test_a_hiccup_in_one_world_shows_nothing() -> None:
    hiccup = judged(tally(12, 0, 0, 0), tally(0, 0, 0, 0))
    assert hiccup is None or not hiccup.is_shown


@pytest.mark.parametrize("at_once", [1, 6])
def test_calls_that_fail_by_chance_alike_are_hardly_ever_accused(at_once: int) -> None:
    """Looked at after each of 12 worlds, in 400 searches of 4 rivals; some calls fail together."""
    draw, accused = random.Random(0), 0

    def failed() -> int:
        return sum(at_once for _ in range(24 // at_once) if draw.random() < 0.1)

    for _ in range(400):
        baseline, rivals = CallTally(), [CallTally() for _ in range(4)]
        shown = False
        for _ in range(12):
            for each in (baseline, baseline, *rivals):
                each.add(Calls(24, failed()))
            found = (judged(rival, baseline, configs=4) for rival in rivals)
            shown = shown or any(each is not None and each.is_shown for each in found)
        accused += shown
    assert accused <= 0.05 * 400


def test_fewer_calls_count_where_both_have_a_fixed_number() -> None:
    found = judged(tally(0, 0, made=10), tally(0, 0, made=24))
    assert found is not None
    assert found.is_shown
    assert found.text == "makes 10 calls of work in each run, the baseline 24"
    assert judged(tally(0, 0, made=30), tally(0, 0, made=24)) is None


def test_a_number_that_varies_is_compared_with_nothing() -> None:
    own, baseline = CallTally(), CallTally()
    for made in (700, 1800):
        own.add(Calls(made, 0, {"size": made - 100, "push": 100}))
        baseline.add(Calls(made + 900, 0, {"size": made + 800, "push": 100}))
    assert judged(own, baseline) is None


def test_fewer_answers_count_where_as_many_calls_are_made() -> None:
    # What fails as often as the baseline's, but in a run that is broken off.
    own, baseline = CallTally(), CallTally()
    for _ in range(2):
        own.add(Calls(24, 4, {}))
        baseline.add(Calls(36, 6, {}))
    found = judged(own, baseline)
    assert found is not None
    assert found.text == "has 20 calls answered in each run, the baseline 30"


def test_without_any_world_of_the_baseline_nothing_is_said() -> None:
    assert judged(tally(20, 20), CallTally()) is None
