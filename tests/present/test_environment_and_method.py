"""What pages and notes say of the environment, and of how a study was measured."""

import math
from typing import Any

import pytest

from testing.results import known, study_result
from tuner.decide.statistics import Interval
from tuner.present.environment_and_method import environment_facts, method_facts
from tuner.present.sentences import noise_sentence
from tuner.world.environment import GroupFacts


@pytest.mark.parametrize(
    ("achieved", "most"),
    [(0.012345, "1.2 %"), (12.3456, "1230 %"), (None, ""), (1e30, ""), (math.inf, "")],
)
def test_the_epsilon_achieved_is_a_plain_percentage_where_it_says_something(
    achieved: float | None, most: str
) -> None:
    epsilon = dict(method_facts(study_result(epsilon_achieved=achieved)))["epsilon"]
    said = f" num_worker_threads=4 is shown to be at most {most} slower than any other"
    assert epsilon.startswith("3 %: a smaller difference does not matter." + said * bool(most))
    assert ("shown" in epsilon) == bool(most)


def test_groups_are_told_and_what_makes_them_unlike() -> None:
    answer = study_result()
    one = GroupFacts(
        name="CPUs 0-3", torch="2.13.0", cpu_model="Abacus 9000", cpu_count=4, memory_gb=64.0,
        kernel="6.1",
    )  # fmt: skip
    other = one.model_copy(update={"name": "CPUs 4-7"})

    def told(*groups: GroupFacts) -> dict[str, str]:
        environment = answer.environment.model_copy(update={"groups": groups})
        return dict(environment_facts(study_result(environment=environment)))

    assert {"groups", "pinned"}.isdisjoint(told())
    assert told(one)["pinned"].startswith("Each world is pinned to 4 logical CPUs of this machine")
    alike = told(one, other)["groups"]
    assert alike.startswith("2 groups measured a block each at a time (1: CPUs 0-3; 2: CPUs 4-7)")
    assert "not alike" not in alike
    slower = other.model_copy(update={"cpu_model": "Abacus 1"})
    assert told(one, slower)["groups"].endswith(
        "The groups are not alike (group 2: CPU model: Abacus 1, Abacus 9000): a speed-up is the "
        "mean over them."
    )


FEW = (
    "too few to show a gain. A larger --budget helps, and so do fewer values, or a quieter machine."
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"least_gain": 0.5}, "The smallest gain that could have been shown is 50 %."),
        ({"least_gain": 0.5, "noise_floor": Interval(1.0, 0.1, 9.0)},
         "in the same blocks: too uncertain to say."),
        *(({"least_gain": least}, f"12 blocks are {FEW}") for least in (None, 1.01, 1e9)),
        ({"least_gain": None, "blocks": 1}, f"1 block is {FEW}"),
    ],
)  # fmt: skip
def test_the_noise_floor_is_one_plain_sentence(changes: dict[str, Any], said: str) -> None:
    answer = study_result(verdict="undecided", **{"noise_floor": None, **changes})
    assert known(noise_sentence(answer)).endswith(said)
