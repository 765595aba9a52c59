"""The main effect and the importance of each knob."""

import itertools
from dataclasses import replace

import pytest

from tests.plan.specs import for_all
from tests.present.results import in_blocks, known, of_two_knobs, study_result
from tuner.decide.statistics import Interval
from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.present.knob_sentences import (
    bad_value_sentences,
    live_sentences,
    together_sentences,
)
from tuner.present.tables import knobs_of
from tuner.study.answer import StudyAnswer
from tuner.study.live_evidence import LiveGain
from tuner.study.records import Live
from tuner.study.together import BestThreads, Interaction, KnobGain, Together

TRANSPORTS = {"shm": 1.0, "uv": 1.5}


def grid(threads: dict[int, float]) -> StudyAnswer:
    """A grid in which each knob takes so many times as long, whatever the other one is."""
    step_ms = {
        (number, way): slower * worse
        for (number, slower), (way, worse) in itertools.product(threads.items(), TRANSPORTS.items())
    }
    count, way = min(step_ms, key=lambda each: step_ms[each])
    best = for_all(num_worker_threads=count, transports=way)
    return in_blocks(of_two_knobs(step_ms, best=best, challenger=best), blocks=12)


@pytest.fixture
def planted() -> StudyAnswer:
    return grid({4: 1.0, 1: 2.0, 2: 1.0, 8: 1.02})


def test_each_value_is_compared_with_the_best_one_of_its_knob(planted: StudyAnswer) -> None:
    table = known(knobs_of(planted))
    cells = {(row[0], row[2]): row for row in table.rows}
    assert len(cells) == len(table.rows) == 6
    ratio = float(cells["num_worker_threads", "1"][3].split(" ")[0])
    assert ratio == pytest.approx(0.5, rel=0.03)
    assert float(cells["transports", "uv"][3].split(" ")[0]) == pytest.approx(0.67, abs=0.02)
    assert cells["transports", "shm"][3:] == ("1", "4")
    explained = {row[0]: float(row[1].split()[0]) for row in table.rows}
    assert list(explained) == ["num_worker_threads", "transports"]
    assert sum(explained.values()) == pytest.approx(100, abs=2)


def test_a_value_that_is_clearly_bad_has_a_sentence(planted: StudyAnswer) -> None:
    (said,) = bad_value_sentences(planted)
    assert said.startswith("transports=uv is clearly bad: 1.4")
    assert " times slower than the best value, at least 1." in said
    few = planted.rows[:3]
    assert bad_value_sentences(replace(planted, rows=few)) == []


def test_a_fit_through_all_values_tells_no_interval(planted: StudyAnswer) -> None:
    by_trial = {row.trial: row for row in planted.rows}
    # 4 threads with each transport, and 1 thread with the slower one.
    table = known(knobs_of(replace(planted, rows=tuple(by_trial[trial] for trial in (0, 1, 3)))))
    assert {row[3] for row in table.rows} == {"1", "?"}
    assert "the shares overlap" in table.note
    whole = known(knobs_of(planted))
    assert "overlap" not in whole.note


BINDING, WORKERS = (Dimension(ALL_ROLES, each) for each in ("cpu_binding", "num_worker_threads"))
BOUND, UNBOUND = (Config.of({BINDING: each}) for each in ("equal", "none"))
TRIED = (1, 2, 4, 8, 16, 32)


SIXTEEN = BestThreads(WORKERS, BOUND, 16, TRIED[:5], TRIED, is_shown=True)
ONE = BestThreads(WORKERS, UNBOUND, 1, (1,), TRIED, is_shown=True)
UNCLEAR = SIXTEEN._replace(near=TRIED, is_shown=False)
INTERACTION = Interaction(WORKERS, 1, 16, ((UNBOUND, 1.17), (BOUND, 1.01)))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Together(gains=(KnobGain(WORKERS, 1, 1.02, None),
                         KnobGain(BINDING, "equal", 1.25, Interval(1.25, 1.2, 1.3)))),
         ["cpu_binding=equal made it about 1.25 times as fast, num_worker_threads=1 about 1.02 "
          "times."]),
        (None, []),
        (Together(best_threads=(SIXTEEN, ONE)),
         ["Best num_worker_threads: 16 with cpu_binding=equal (within 3 %: 1 to 16), 1 with "
          "cpu_binding=none."]),
        (Together(best_threads=(ONE._replace(near=(1, 4)),)),
         ["Best num_worker_threads: 1 with cpu_binding=none (within 3 %: 1 and 4)."]),
        (Together(best_threads=(UNCLEAR, UNCLEAR._replace(beside=UNBOUND))),
         ["No num_worker_threads from 1 to 32 is shown to be the best with cpu_binding=equal (16 "
          "looks best) or with cpu_binding=none (16 looks best)."]),
        # Where they are alike comes first.
        (Together(interactions=(INTERACTION,)),
         ["These knobs interact, as far as measured. With cpu_binding=equal, num_worker_threads=16 "
          "is about as fast as 1. With cpu_binding=none, num_worker_threads=1 is 1.17 times as "
          "fast as 16."]),
        (Together(interactions=(INTERACTION._replace(gains=((UNBOUND, 0.8), (BOUND, 1.2))),)),
         ["These knobs interact, as far as measured. With cpu_binding=equal, num_worker_threads=1 "
          "is 1.20 times as fast as 16. With cpu_binding=none, num_worker_threads=16 is 1.25 times "
          "as fast as 1."]),
    ],
)  # fmt: skip
def test_what_the_knobs_gave_together_is_said(found: Together | None, said: list[str]) -> None:
    assert together_sentences(study_result(together=found)) == said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (Interval(1.214, 1.15, 1.274), "1.21 times as fast (1.15 to 1.27)"),
        (Interval(5.0, 1.5, 30.0), "at least 1.50 times as fast"),
        (Interval(0.2, 0.01, 0.5), "at most 0.50 times as fast"),
        (Interval(1.0, 0.1, 10.0), "not told apart"),
    ],
)
def test_what_was_compared_within_runs_has_a_sentence(ratio: Interval, said: str) -> None:
    config, over = (for_all(switch_interval=each) for each in (0.001, 0.005))
    gain = LiveGain(config=config, over=over, ratio=ratio, fresh=None)
    live = Live(configs=(), gains=((0.0, 0.2),) * 4)
    answer = replace(study_result(), live=live, live_gains=(gain,))
    assert live_sentences(answer) == [f"switch_interval=1ms against 5ms, live in 4 runs: {said}."]
