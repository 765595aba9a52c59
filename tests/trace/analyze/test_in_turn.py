"""Calls that take turns with a lock, and calls that sleep: told apart by when they end."""

import heapq
from collections.abc import Callable

import numpy as np
import pytest

from tuner.trace.analyze.in_turn import takes_turns
from tuner.trace.analyze.time_spans import open_over_time

MS = 1_000_000


def with_permits(
    permits: int, hold_ms: Callable[[], float], *, calls: int = 80, threads: int = 16,
    barges: bool = True, before_ms: float = 0.0, late_ms: Callable[[], float] = lambda: 0.0,
) -> bool | None:  # fmt: skip
    """What is said of calls on so many threads that take a semaphore; `late_ms` is the machine's.

    With `barges` a thread that gives it back takes it again with its next call, before those that
    wait.
    """
    free = [0.0] * permits
    waiting = [(0.05 * thread, thread) for thread in range(threads)]
    spans: list[tuple[float, float]] = []
    left = calls
    heapq.heapify(waiting)
    while waiting and left:
        began, thread = heapq.heappop(waiting)
        while left:
            left -= 1
            got = max(heapq.heappop(free), began + before_ms)
            ended = got + hold_ms() + late_ms()
            heapq.heappush(free, ended)
            spans.append((began, ended))
            began = ended + 0.1
            if not barges:
                heapq.heappush(waiting, (began, thread))
                break
            if RANDOM.random() < 0.2:
                heapq.heappush(waiting, (began, thread))
                break
    return of(spans)


def asleep(
    sleep_ms: Callable[[], float], *, calls: int = 80, threads: int = 16,
    late_ms: Callable[[], float] = lambda: 0.0,
) -> bool | None:  # fmt: skip
    free, spans = [0.05 * thread for thread in range(threads)], list[tuple[float, float]]()
    for _ in range(calls):
        began = heapq.heappop(free)
        spans.append((began, began + sleep_ms() + late_ms()))
        heapq.heappush(free, spans[-1][1] + 0.1)
    return of(spans)


def of(spans: list[tuple[float, float]]) -> bool | None:
    start, end = (np.array(each) for each in zip(*spans, strict=True))
    start_ns, end_ns = (np.round(each * MS).astype(np.int64) for each in (start, end))
    return takes_turns(open_over_time(start_ns, end_ns), start_ns, end_ns, (end - start) * MS)


RANDOM = np.random.default_rng(0)


def always() -> float:
    return 5.0


def varied() -> float:
    return float(RANDOM.uniform(2, 8))


def on_a_busy_machine() -> float:
    return float(RANDOM.exponential(3))


@pytest.mark.parametrize("seed", range(5))
def test_a_lock_is_known_whatever_the_load_and_whoever_gets_it_next(seed: int) -> None:
    global RANDOM
    RANDOM = np.random.default_rng(seed)
    assert with_permits(1, always) is True
    assert with_permits(1, varied) is True
    assert with_permits(1, always, barges=False) is True
    assert with_permits(1, always, late_ms=on_a_busy_machine) is True
    assert with_permits(1, always, before_ms=10, late_ms=on_a_busy_machine) is not False
    # Two locks, or a semaphore: surely no sleep.
    assert with_permits(2, always) is not False
    assert with_permits(2, always, late_ms=on_a_busy_machine) is not False


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("threads", [2, 4, 16])
def test_calls_that_sleep_are_never_taken_for_a_lock(seed: int, threads: int) -> None:
    global RANDOM
    RANDOM = np.random.default_rng(seed)
    assert asleep(always, threads=threads) is False
    assert asleep(varied, threads=threads) is not True
    for sleep_ms in (always, varied):
        assert asleep(sleep_ms, threads=threads, late_ms=on_a_busy_machine) is not True


def test_few_calls_say_nothing() -> None:
    assert with_permits(1, varied, calls=6) is None
