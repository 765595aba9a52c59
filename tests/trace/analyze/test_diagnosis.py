"""What limits a driver, and why: of planted traces, each alone and together, and of none."""

import pytest

from tests.golden.media import PLANTED, stored
from tests.trace.analyze.diagnoses import ROLES, SCENARIOS, rendered
from tests.trace.synthetic import call, trace
from tuner.plan.knobs import KNOBS, NUM_WORKER_THREADS
from tuner.trace.analyze.critical_path import Share
from tuner.trace.analyze.diagnosis import diagnose
from tuner.trace.analyze.failed_calls import slowest_call
from tuner.trace.analyze.path_limits import Limit, unseen_shares

SAID = dict(
    each.rstrip("\n").split("\n", 1) for each in stored(PLANTED)["diagnoses.txt"].split("# ")[1:]
)
OF_LOCKS = "If they wait for a lock, more threads do not help"


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_said_of_a_planted_trace(name: str) -> None:
    taken = SCENARIOS[name]()
    found = diagnose(taken, ROLES)
    assert rendered(found, slowest_call(taken)) == SAID[name], "`make golden` shows the changes"
    # Sentences and facts are one.
    if " not help" in found.text.replace(OF_LOCKS, ""):
        assert found.enough_threads
    assert not (found.enough_threads and "more threads help" in found.text.lower())
    for each in found.suggestions:
        assert found.text.count(f"--space {each.space} tries it.") == 1
        knob, values = KNOBS[each.knob], each.values.split(",")
        # Of threads the least is what the server has.
        if knob != NUM_WORKER_THREADS:
            assert knob.default in map(knob.read, values)


def test_nothing_is_said_of_what_is_not_planted() -> None:
    assert [*SAID] == [*SCENARIOS]


@pytest.mark.parametrize("kind", ["unseen", "backward"])
def test_what_is_missing_is_said_without_a_number_that_is_not_known(kind: str) -> None:
    lost = trace([call(1, 0, 9)])
    limit = Limit(kind=kind, processes=("worker1",), functions=("udf",), share=Share(0.25, 0, 0.9))
    (sentence,) = unseen_shares(lost, "worker0", [limit])
    assert "or an unknown share of the time" in sentence
    assert "%" not in sentence
