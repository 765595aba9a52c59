from typing import Any

import pytest

from tests.fake_program import COMMAND, FakeProgramLauncher
from tuner.plan.draft import (
    LEAST_WINDOWED,
    PlanDraft,
    draft_plan,
    like_before,
    may_be_windowed,
    windowed,
)
from tuner.plan.program_spec import ProgramSpec, SteadyPart

PART = SteadyPart(warm_up_s=0.25, window_s=1.5, world_s=3.0)


def drafted(**keys: Any) -> PlanDraft:
    found = draft_plan({"program": COMMAND, "space": {"num_worker_threads": [4, 8]}, **keys})
    assert found.problems == ()
    return found


def spec_of(draft: PlanDraft, run_s: float = 14.0, **known: Any) -> ProgramSpec:
    spec = FakeProgramLauncher(lambda config: run_s, run_s=(run_s,)).subject_of(draft)
    return spec.model_copy(update={"steady": PART, **known})


def test_a_run_that_is_long_for_the_budget_gets_the_window() -> None:
    draft = drafted(budget="60s")
    spec = windowed(draft, spec_of(draft))
    assert (spec.window_s, spec.warm_up_s, spec.usual_s) == (1.5, 0.25, 3.0)
    assert draft.finish(spec).objective.name == "ms_per_call"
    keys = spec.keys()
    assert (keys["window"], keys["warm_up"]) == ("auto:1.5s", 0.25)
    again = drafted(**{name: keys[name] for name in ("window", "warm_up")}).program
    assert again is not None
    assert (again.window_s, again.window_is_chosen) == (1.5, True)


def test_a_long_window_is_cut_so_that_four_blocks_of_two_fit() -> None:
    long = SteadyPart(warm_up_s=0.25, window_s=6.0, world_s=8.0)
    for budget, window_s in (("80s", (80 - 14) / LEAST_WINDOWED - 2), ("40s", 1.5), ("150s", 6.0)):
        draft = drafted(budget=budget)
        assert windowed(draft, spec_of(draft, steady=long)).window_s == pytest.approx(window_s)


@pytest.mark.parametrize(
    ("budget", "run_s", "known", "why"),
    [
        ("10m", 14.0, {"why_whole": "it changes"}, ""),
        ("60s", 3.5, {}, ""),
        ("60s", 14.0, {"steady": None, "why_whole": "it changes"}, "it changes"),
    ],
)
def test_whole_runs_are_kept_where_they_fit_or_nothing_stands_for_them(
    budget: str, run_s: float, known: dict[str, Any], why: str
) -> None:
    draft = drafted(budget=budget)
    spec = windowed(draft, spec_of(draft, run_s, **known))
    assert (spec.window_s, spec.why_whole) == (None, why)


@pytest.mark.parametrize(
    ("keys", "may"),
    [
        ({}, True),
        ({"window": "auto"}, True),
        ({"objective": "ms_per_call"}, True),
        ({"window": "off"}, False),
        ({"window": "2s"}, False),
        ({"expect": "done"}, False),
        ({"metric": "loss=([0-9.]+)"}, False),
        ({"objective": "rpc_active_s"}, False),
        ({"objective": "ms_per_call,cpu_s"}, False),
        ({"require": ["peak_rss_mb<=2000"]}, False),
    ],
)
def test_what_only_a_whole_run_has_forbids_a_window(keys: dict[str, Any], may: bool) -> None:
    assert may_be_windowed(drafted(**keys)) == may


def test_a_resumed_study_keeps_its_window_or_its_whole_runs() -> None:
    draft = drafted(budget="60s")
    chosen, whole = windowed(draft, spec_of(draft)), spec_of(draft)
    for spec, kept in ((chosen, (1.5, True, False)), (whole, (None, False, True))):
        program = like_before(draft, draft.finish(spec)).program
        assert program is not None
        assert (program.window_s, program.window_is_chosen, program.whole_runs) == kept
    named = drafted(window="3s")
    assert like_before(named, draft.finish(chosen)) == named
    assert chosen.fingerprint() != whole.fingerprint()
