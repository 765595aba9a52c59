import random

import numpy as np
import pytest
from scipy import stats

from tuner.decide.failing import fails_more


@pytest.mark.parametrize("failed", [1, 2, 5, 12])
@pytest.mark.parametrize("others_failed", [0, 3, 40])
def test_the_chance_is_that_of_fishers_exact_test(failed: int, others_failed: int) -> None:
    table = np.array([[failed, 12 - failed], [others_failed, 60 - others_failed]])
    chance = float(stats.fisher_exact(table, alternative="greater").pvalue)
    needed = chance * failed * (failed + 1)
    assert fails_more(failed, 12, others_failed, 60, needed * 1.001)
    assert not fails_more(failed, 12, others_failed, 60, needed * 0.999)


def test_one_failure_is_hardly_ever_enough() -> None:
    assert not fails_more(1, 1, 0, 50, 0.01)
    assert fails_more(6, 12, 1, 60, 0.002)


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.05, 0.2, 0.5])
def test_who_fails_as_often_as_the_others_is_hardly_ever_said_to_fail_more(chance: float) -> None:
    """Asked after each failure of each of six, of blocks in which all run: 5 % are allowed."""
    dice, wrong, studies = random.Random(7), 0, 300
    for _ in range(studies):
        failed, said = [0] * 6, False
        for worlds in range(1, 61):
            for trial in range(6):
                if dice.random() < chance:
                    failed[trial] += 1
                    others = sum(failed) - failed[trial]
                    said |= fails_more(failed[trial], worlds, others, 5 * worlds, 0.05 / 6)
        wrong += said
    assert wrong / studies <= 0.05
