import re
from dataclasses import replace
from typing import Any

import pytest

from testing.results import ROWS, failed, in_blocks, known, measured, study_plan, study_result
from testing.specs import threads
from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.present.knob_sentences import edge_sentences, role_sentence, tried_sentences
from tuner.present.sentences import advice_of, no_calls_sentence, sentences_of
from tuner.study.answer import StudyAnswer
from tuner.study.records import Sampling
from tuner.study.rows import TrialDetail

DEADLOCKED = (
    "worker1 deadlocked: its only worker thread waits for the answer to a call made while serving "
    "one. That answer needs a free thread there: give it more num_worker_threads"
)


def test_a_step_without_a_call_is_told_first() -> None:
    without = {0: TrialDetail(calls=0), 1: TrialDetail(), 4: TrialDetail(calls=0)}
    answer = study_result(details=without)
    first = known(no_calls_sentence(answer))
    assert first.startswith("The traced steps made no RPC call")
    assert sentences_of(answer)[0] == first
    seen = {**without, 1: TrialDetail(calls=1)}
    assert no_calls_sentence(study_result(details=seen)) is None


def test_a_step_that_does_not_wait_for_its_calls_is_told_of() -> None:
    details = {0: TrialDetail(calls=9, open_calls=4), 1: TrialDetail(calls=9, open_calls=0)}
    (said, *_) = advice_of(study_result(details=details))
    assert said.startswith("step() does not wait for its calls: 4 calls had no result yet")
    waits = {0: TrialDetail(calls=9, open_calls=0)}
    assert said not in advice_of(study_result(details=waits))


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (
            "worker1; see page 7 " * 20,
            r"worker1; see .* \[\.\.\. \d+ characters \.\.\.\] .*page 7 ",
        ),
        (DEADLOCKED, re.escape(DEADLOCKED)),
    ],
)
def test_a_long_failure_is_shortened_and_its_evidence_is_still_named(why: str, said: str) -> None:
    failure = failed(4, threads(32), f"{why}; see failures/one")
    answer = study_result(rows=(*ROWS[:4], failure))
    (line,) = (each for each in advice_of(answer) if "worker1" in each)
    assert re.fullmatch(f".*{said}; see studies/udf/failures/one", line)
    assert len(line) < 350


def test_an_exploration_under_way_compares_nothing_yet() -> None:
    sampling = Sampling(sampler="gp", configs=1000)
    (said,) = tried_sentences(study_result(sampling=sampling))
    assert "were compared" not in said


def searched(
    steps_ms: dict[int, float], best: int, enough: tuple[str, ...] = (), role: str = ALL_ROLES
) -> StudyAnswer:
    """A study of these numbers of threads of a role, the baseline of 16 among them.

    More threads do not help the ranks in `enough`, by every diagnosis.
    """
    dimension = Dimension(role, "num_worker_threads")
    plan = study_plan(space={str(dimension): sorted(steps_ms)})
    order = [16, *(count for count in steps_ms if count != 16)]
    configs = {count: Config.of({dimension: count}) for count in order}
    rows = tuple(
        replace(measured(trial, config, steps_ms[count]), enough_threads=enough)
        for trial, (count, config) in enumerate(configs.items())
    )
    found = configs[best]
    return in_blocks(study_result(plan, best=found, challenger=found, rows=rows))


@pytest.mark.parametrize(
    "changes",
    [
        {"space": {"caller.num_worker_threads": [4, 16]}},  # one role already
        {"space": {"transports": ["shm", "uv"]}},  # the same for all, or init_rpc fails
        {"space": {"num_worker_threads": [4, 16], "server.num_worker_threads": [1, 2]}},
    ],
)
def test_where_roles_differ_or_cannot_nothing_is_said_of_them(changes: dict[str, Any]) -> None:
    plan = study_plan(**changes)
    baseline, other = plan.candidates()[:2]
    rows = (measured(0, baseline, 2.0, (2.0, 2.0)), measured(1, other, 1.0, (1.0, 1.0)))
    answer = study_result(plan, best=other, challenger=other, rows=rows)
    assert answer.verdict == "better"
    assert role_sentence(answer) is None


@pytest.mark.parametrize(
    ("steps_ms", "best", "how"),
    [
        ({8: 1.0, 16: 2.0, 4: 3.0}, 8, {}),  # within
        ({1: 1.0, 16: 2.0}, 1, {}),  # there is nothing below 1
        ({8: 1.0, 16: 1.0, 32: 1.0}, 32, {}),  # not better than its neighbour
        ({16: 2.0, 4096: 1.0}, 4096, {}),  # the knob's own limit
        # More threads do not help.
        ({8: 3.0, 16: 2.0, 32: 1.0}, 32, {"enough": ("worker1",)}),
        ({16: 2.0, 32: 1.0}, 32, {"enough": ("worker0",), "role": "caller"}),
    ],
)
def test_where_nothing_is_to_try_beyond_the_space(
    steps_ms: dict[int, float], best: int, how: dict[str, Any]
) -> None:
    assert not [*edge_sentences(searched(steps_ms, best, **how))]


def test_fewer_threads_or_more_of_another_role_are_tried_where_one_has_enough() -> None:
    (said,) = edge_sentences(searched({4: 1.0, 8: 2.0, 16: 3.0}, 4, ("worker1",)))
    assert said.endswith("To try smaller ones: --space num_worker_threads=2,4,8,16")
    (said,) = edge_sentences(searched({16: 2.0, 32: 1.0}, 32, ("worker1",), "caller"))
    assert said.endswith("To try larger ones: --space caller.num_worker_threads=16,32,64")
