"""What is said of values of knobs, and of knobs together."""

from dataclasses import replace
from itertools import product

import pytest

from testing.results import in_blocks, of_two_knobs, study_result
from tuner.decide.statistics import Interval
from tuner.plan.config import ALL_ROLES, Config, Dimension
from tuner.present.knob_sentences import bad_value_sentences, together_sentences
from tuner.study.together import BestThreads, Interaction, KnobGain, Together


def test_a_value_that_is_clearly_bad_has_a_sentence() -> None:
    knobs = product({4: 1.0, 1: 2.0, 2: 1.0, 8: 1.02}.items(), {"shm": 1.0, "uv": 1.5}.items())
    step_ms = {(count, way): slow * worse for (count, slow), (way, worse) in knobs}
    planted = in_blocks(of_two_knobs(step_ms), blocks=12)
    (said,) = bad_value_sentences(planted)
    assert said.startswith("transports=uv is clearly bad: 1.4")
    assert " times slower than the best value, at least 1." in said
    assert bad_value_sentences(replace(planted, rows=planted.rows[:3])) == []


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
