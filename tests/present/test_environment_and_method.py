"""What pages and notes say of the environment, and of how a study was measured."""

import math
from typing import Any

import pytest

from tests.plan.specs import threads
from tests.present.results import study_result
from tuner.plan.study_plan import StudyPlan
from tuner.present.environment_and_method import environment_facts, method_facts


@pytest.mark.parametrize(
    ("achieved", "said"),
    [
        (0.02, "num_worker_threads=4 is shown to be at most 2 % slower than any other"),
        (1.4996, "at most 150 % slower"),
        (0.012345, "at most 1.2 % slower"),
        (12.3456, "at most 1235 % slower"),
    ],
)
def test_the_epsilon_achieved_is_a_plain_percentage(
    plan: StudyPlan, achieved: float, said: str
) -> None:
    epsilon = dict(method_facts(study_result(plan, epsilon_achieved=achieved)))["epsilon"]
    assert epsilon.startswith("3 %: a smaller difference does not matter; ")
    assert said in epsilon
    assert "e+" not in epsilon


@pytest.mark.parametrize("achieved", [None, 1e30, math.inf])
def test_an_endless_bound_is_not_shown(plan: StudyPlan, achieved: float | None) -> None:
    epsilon = dict(method_facts(study_result(plan, epsilon_achieved=achieved)))["epsilon"]
    assert epsilon == "3 %: a smaller difference does not matter"


def test_a_speed_up_is_told_of_what_met_the_baseline(plan: StudyPlan) -> None:
    def told(**changes: Any) -> str | None:
        return dict(method_facts(study_result(plan, **changes))).get("speed-up")

    kept = {"best": threads(16), "verdict": "undecided"}
    assert (told() or "").startswith("baseline time / best time, paired within blocks")
    rival = told(**kept, challenger=threads(4))
    assert (rival or "").startswith("baseline time / challenger time, paired within blocks")
    assert told(**kept, challenger=None, challenger_speedup=None) is None


def test_the_environment_counts_logical_cpus(plan: StudyPlan) -> None:
    answer = study_result(plan)
    assert dict(environment_facts(answer))["CPU"] == "Abacus 9000, 2 logical CPUs"
    one = answer.environment.model_copy(update={"cpu_count": 1})
    facts = environment_facts(study_result(plan, environment=one))
    assert dict(facts)["CPU"] == "Abacus 9000, 1 logical CPU"
