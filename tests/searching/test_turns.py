"""What a budget that is too short for all measures: one bet after the other."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from testing.fakes import threads_of
from testing.known import known
from tests.searching.tuning import Tune
from tuner.plan.config import Config
from tuner.study.log import BASELINE

SPACE: Mapping[str, Any] = {
    "cpu_binding": ["none", "equal"], "intra_op_threads": [1, 2], "num_worker_threads": [1, 4, 16],
}  # fmt: skip
ASKED: Mapping[str, Any] = {"space": SPACE, "overhead_s": 2.0, "sigma": 0.02, "budget": "60s"}


def is_bound(config: Config) -> bool:
    return "=equal" in str(config)


def blocks_of(tune: Tune) -> list[list[Config]]:
    """What each block of the race measured beside the baseline, in order."""
    found = dict[int, set[int]]()
    for record in tune.log.records:
        if record.phase == "race":
            found.setdefault(record.block, set()).add(record.trial)
    return [
        [tune.log.configs[trial] for trial in sorted(found[block] - {BASELINE})]
        for block in sorted(found)
    ]


def test_the_best_bet_is_measured_alone_and_the_next_one_beside_what_has_won(tune: Tune) -> None:
    answer = tune(step_ms=lambda config: 3.0 if is_bound(config) else 6.0, **ASKED)
    assert (answer.verdict, is_bound(known(answer.best))) == ("better", True)
    blocks = blocks_of(tune)
    assert all(is_bound(config) for block in blocks for config in block)
    (bet,), *_ = blocks
    assert blocks[:4] == [[bet]] * 4
    assert {len(block) for block in blocks[4:]} == {2}
    assert all(bet in block for block in blocks)
    assert len({config for block in blocks for config in block}) > 2
    assert answer.not_reached


def test_a_bet_that_loses_gives_way_after_few_blocks(tune: Tune) -> None:
    def step_ms(config: Config) -> float:
        return 9.0 if is_bound(config) else 3.0 if threads_of(config) == 4 else 6.0

    answer = tune(step_ms=step_ms, **ASKED)
    assert (answer.verdict, threads_of(known(answer.best))) == ("better", 4)
    bound = [block for block in blocks_of(tune) if is_bound(block[0])]
    assert len(bound) == 2


def test_a_bet_that_this_budget_cannot_show_gives_way(tune: Tune) -> None:
    tune(step_ms=lambda config: 5.95 if is_bound(config) else 6.0, **{**ASKED, "sigma": 0.15})
    assert len({config for block in blocks_of(tune) for config in block}) > 1


def test_a_bet_that_fails_gives_way(tune: Tune) -> None:
    answer = tune(
        step_ms=lambda config: 3.0 if threads_of(config) == 4 else 6.0,
        fails=lambda config, world: "crashed" if is_bound(config) else None, **ASKED,
    )  # fmt: skip
    assert threads_of(known(answer.best)) == 4


def test_who_wants_all_has_one_race(tune: Tune) -> None:
    tune(step_ms=lambda config: 3.0 if is_bound(config) else 6.0, **ASKED, exhaustive=True)
    assert not any(len(block) == 2 for block in blocks_of(tune))


def test_each_value_that_a_person_names_has_a_world_before_another_has_many(tune: Tune) -> None:
    space = {"num_worker_threads": [1, 2, 4, 8, 16, 32]}
    asked = {**ASKED, "space": space, "overhead_s": 3.0, "budget": "90s"}
    tune(step_ms=lambda config: 5.98 if threads_of(config) == 1 else 6.0, **asked)
    tried = [threads_of(order.config) for order in tune.launcher.orders if not order.trace]
    until = max(tried.index(threads) for threads in space["num_worker_threads"])
    assert Counter(tried[:until]).most_common(1)[0][1] <= 10
