"""Searches whose budget is a limit: they end where the answer is clear, or would not get so."""

from tests.fakes import FakeLauncher, threads_of
from tests.searching.tuning import Tune, scaling
from tuner.searching.progress_reports import Compared, Silent, Snapshot


class Listening(Silent):
    """An observer that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.compared: list[Compared] = []

    def on_snapshot(self, snapshot: Snapshot) -> None:
        found = snapshot.compared
        if found is not None and found not in self.compared:
            self.compared.append(found)

    def on_event(self, message: str) -> None:
        self.events.append(message)


def test_it_ends_as_soon_as_the_answer_is_clear(tune: Tune) -> None:
    heard = Listening()
    result = tune(FakeLauncher(step_ms=scaling, sigma=0.03), baseline={"num_worker_threads": 1},
                  space={"num_worker_threads": [2, 4]}, budget="auto", observer=heard)  # fmt: skip
    assert result.verdict == "better"
    assert result.elapsed_s < 120
    assert not any("would not make" in event for event in heard.events)
    widths = [each.speedup.high / each.speedup.low for each in heard.compared]
    assert len(widths) >= 2
    assert widths == sorted(widths, reverse=True)
    assert heard.compared[-1].more_s is None
    assert heard.compared[-1].speedup == result.challenger_speedup


def test_it_ends_where_the_limit_would_not_be_enough(tune: Tune) -> None:
    heard = Listening()
    noisy = FakeLauncher(
        step_ms=lambda config: 2.0 if threads_of(config) == 16 else 1.97, sigma=0.5
    )
    asked = {"space": {"num_worker_threads": [2]}, "observer": heard}
    result = tune(noisy, budget="auto:60s", **asked)
    assert result.verdict == "undecided"
    assert result.elapsed_s < 45
    (said,) = [event for event in heard.events if "would not make the answer clear" in event]
    assert "even with luck" in said
    assert result.more_s is not None
    assert result.more_s > 60 - result.elapsed_s
    # Who wants all of it to be spent says so.
    more = tune(noisy, budget="60s", resume=True, **asked)
    assert more.elapsed_s > 50
