import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from testing.synthetic import call, ns, operator, ranks, trace
from tests.trace.analyze import planted
from tests.trace.analyze.planted import repeated, shares, step
from tuner.trace.analyze import critical_path as critical_path_module
from tuner.trace.analyze.critical_path import (
    PATH_COLUMNS,
    critical_path,
    find_critical_path,
    share_of,
)
from tuner.trace.analyze.path_walk import DEEPEST, PARTS
from tuner.trace.analyze.server_evidence import gather
from tuner.trace.analyze.server_parallelism import threads_taken

Keys = tuple[str, str, str]


def of_wait(wait: float, parts_ms: dict[Keys, float]) -> dict[Keys, float]:
    """The shares of a wait for a call that was issued before it, in proportion to its parts."""
    whole_ms = sum(parts_ms.values())
    return {name: part_ms / whole_ms * wait for name, part_ms in parts_ms.items()}


def there_and_back(worker: str, function: str, *parts_ms: float) -> dict[Keys, float]:
    """The way to a server, the time that it serves, and the way back."""
    parts = ("to_server", "served", "to_client")
    return {(part, worker, function): ms for part, ms in zip(parts, parts_ms, strict=True)}


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (planted.one_measured_call, {
            ("issue", "worker0", "udf"): 0.05, ("to_server", "worker1", "udf"): 0.25,
            ("on_cpu", "worker1", "udf"): 0.2, ("run_queue", "worker1", "udf"): 0.1,
            ("off_cpu", "worker1", "udf"): 0.2, ("to_client", "worker1", "udf"): 0.2,
        }),
        # An answer is pickled before it is on its way.
        (planted.one_answered_call, {
            ("issue", "worker0", "udf"): 0.05, ("to_server", "worker1", "udf"): 0.25,
            ("served", "worker1", "udf"): 0.5, ("answer", "worker1", "udf"): 0.15,
            ("to_client", "worker1", "udf"): 0.05,
        }),
        # The caller issues the second call while the first one is half done, and waits for half.
        (planted.half_a_call, {
            ("caller", "worker0", ""): 0.5, ("on_cpu", "worker1", "udf"): 0.2,
            ("run_queue", "worker1", "udf"): 0.1, ("off_cpu", "worker1", "udf"): 0.2,
        }),
        (planted.a_chain_of_three, {
            ("to_server", "worker1", "udf"): 0.1, ("on_cpu", "worker1", "udf"): 0.1,
            ("to_server", "worker2", "middle"): 0.05, ("on_cpu", "worker2", "middle"): 0.1,
            ("to_server", "worker3", "last"): 0.05, ("off_cpu", "worker3", "last"): 0.4,
            ("to_client", "worker3", "last"): 0.05, ("to_client", "worker2", "middle"): 0.05,
            ("to_client", "worker1", "udf"): 0.1,
        }),
        # The caller issued a third call before it waited.
        (planted.in_parallel, {
            ("caller", "worker0", ""): 0.02,
            **of_wait(0.98, there_and_back("worker2", "udf", 0.9, 8, 1)),
        }),
        # A batch waits for the call that completes it, and for who makes that.
        (planted.a_batch, {
            ("caller", "worker0", ""): 0.11,
            **of_wait(0.89, {
                **there_and_back("worker1", "run", 1, 2, 1), ("served", "worker2", "run"): 3.4,
                **there_and_back("worker0", "select", 0.7, 0.4, 0.5),
            }),
        }),
        # A pending result waits for the calls of other threads.
        (planted.on_a_thread_of_its_own, {
            ("caller", "worker0", ""): 0.1, ("pending", "worker1", "train"): 0.38,
            **there_and_back("worker1", "train", 0.1, 0.02, 0.1),
            **there_and_back("worker2", "report", 0.1, 0.1, 0.1),
        }),
        # A fetch waits for the value to be made.
        (planted.a_remote_value, {
            ("caller", "worker0", ""): 0.25, ("unseen", "worker1", ""): 0.1,
            **of_wait(0.65, there_and_back("worker1", "make", 1, 5, 1)),
        }),
    ],
)  # fmt: skip
def test_the_path_through_planted_calls(calls: planted.Step, expected: dict[Keys, float]) -> None:
    assert shares(repeated(calls)) == pytest.approx(expected, abs=1e-5)


def test_a_caller_that_is_in_an_operator_does_not_wait() -> None:
    taken = repeated(planted.beside_an_operator, operators=planted.in_operators)
    assert shares(taken) == pytest.approx({
        ("caller", "worker0", ""): 0.1 + 0.7 + 0.1,
        **of_wait(0.1, there_and_back("worker2", "udf", 0.9, 7, 1)),
    }, abs=1e-5)  # fmt: skip


def test_results_taken_one_by_one_waited_for_a_thread_all_the_same() -> None:
    """Sixteen calls at once on one thread; with operators the trace shows the waits one by one."""

    def reading(at: float) -> planted.Rows:
        return [operator("aten::sum", at + i / 2 + 0.01, at + i / 2 + 0.02, rank=0, thread=1)
                for i in range(1, 17)]  # fmt: skip

    sixteen = step(*((0, (i + 1) / 2, (i / 2, (i + 1) / 2), {}) for i in range(16)))
    one_thread: dict[str, Any] = {"processes": ranks(2, threads=1)}
    at_the_end = shares(repeated(sixteen, **one_thread))
    one_by_one = shares(repeated(sixteen, operators=reading, **one_thread))
    assert at_the_end["queue", "worker1", "udf"] == pytest.approx(0.8 * 15 / 16, abs=0.01)
    # The first call did not wait for a thread, the second one did half of its time, and so on. For
    # 4 % of each wait the caller takes the result before it.
    assert one_by_one["queue", "worker1", "udf"] == pytest.approx(
        0.96 * 0.8 * sum(i / (i + 1) for i in range(16)) / 16, abs=0.01
    )


@pytest.mark.parametrize(("is_answered", "part"), [(True, "queue"), (False, "to_server")])
def test_a_thread_that_pickles_an_answer_is_not_free(is_answered: bool, part: str) -> None:
    """Two threads take a quarter of the time to run each call, and the rest for its answer."""
    eight = step(*(
        (0, begun + 2.1, (begun, begun + 0.8),
         {"thread": thread, "cpu_ms": 0.8, "run_queue_ms": 0,
          **({"answered_ms": begun + 2} if is_answered else {})})
        for begun in (0, 2, 4, 6) for thread in (11, 12)
    ))  # fmt: skip
    taken = repeated(eight, steps=20, processes=ranks(2, threads=2))
    assert critical_path(taken).loc[0, "part"] == part
    use = gather(taken, 1).use
    assert (use.waited_full_share > 0.9) == is_answered
    # Either way, no work of the program's is done meanwhile.
    assert use.parallelism == pytest.approx(2)
    assert use.busy_fraction == pytest.approx(0.32, abs=0.01)


def test_the_answer_of_an_async_function_takes_no_thread_of_its_server() -> None:
    later = call(1, 0, 10, served_ms=(0, 1), done_ns=ns(8), answered_ns=ns(9))
    (steps,) = threads_taken(trace([later])).values()
    assert steps.time_at_level().tolist() == [0, 1e6]


def test_a_driver_is_rank_0_or_the_process_that_waits_for_calls_the_longest() -> None:
    def in_turn(at: float, number: int) -> planted.Rows:
        """Two threads of rank 0 call in turn: the driver is both."""
        long = (0, 9, (1, 8), {"server_rank": 2, "client_rank": 1, "function": "long"})
        return step((2, 6, (3, 5), {"client_thread": 1 + number // 100 % 2}), long)(at, number)

    taken = repeated(in_turn)
    assert shares(taken)["caller", "worker0", ""] == 0.6
    # Without steps, the time from its first call to the end of the last one counts.
    found = shares(dataclasses.replace(taken, steps=None))
    assert found["served", "worker2", "long"] == pytest.approx(70 / 99, abs=1e-6)


def test_a_chain_that_is_too_deep_ends_unseen() -> None:
    levels = [
        (level / 100, 10 - level / 100, (level / 100, 10 - level / 100),
         {"client_rank": level % 2, "server_rank": (level + 1) % 2,
          **({"parent": level - 1} if level else {})})
        for level in range(3 * DEEPEST)
    ]  # fmt: skip
    found = critical_path(repeated(lambda at, number: step(*levels)(at, 1000 * number)))
    assert found["part"].iloc[-1] == "unseen"
    assert found["share"].sum() == pytest.approx(1)


def test_without_a_call_there_is_no_path() -> None:
    for empty in (trace(), trace([call(1, 0, None)])):
        assert list(critical_path(empty).columns) == list(PATH_COLUMNS)
        assert critical_path(empty).empty


TIMES = st.lists(st.integers(0, 1000), min_size=8, max_size=8)
RANK = st.integers(0, 2)
CALLS = st.lists(
    st.tuples(TIMES, st.integers(-1, 5), RANK, RANK, st.booleans()), min_size=1, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(CALLS, st.sampled_from([None, 3]))
def test_shares_add_up_to_one_whatever_the_clocks_say(
    drawn: list[tuple[list[int], int, int, int, bool]], steps: int | None
) -> None:
    rows = [
        call(
            number, start, start + lasted, done_ns=ns(done), answered_ns=ns(answered),
            issued_ns=ns(issued), cpu_ms=cpu,
            served_ms=(served, served + served_for) if seen else None,
            parent_call=parent if parent >= 0 else None, client_rank=client, server_rank=server,
        )
        for number, (times, parent, client, server, seen) in enumerate(drawn)
        for start, lasted, served, served_for, done, answered, issued, cpu in [times]
    ]  # fmt: skip
    found = critical_path(trace(rows, processes=ranks(3), steps=steps))
    if found.empty:
        assert all(
            row["end_ns"] == row["start_ns"] or row["parent_call"] is not None for row in rows
        )
        return
    assert found["share"].sum() == pytest.approx(1)
    assert (found["share"] > 0).all()
    assert set(found["part"]) <= set(PARTS)
    known = found.dropna()
    assert (known["ci_low"] <= known["share"] + 1e-9).all()
    assert (known["share"] <= known["ci_high"] + 1e-9).all()


def test_the_interval_is_students_where_steps_last_equally_long() -> None:
    time = np.random.default_rng(1).uniform(2, 6, 20)
    total = np.full(20, 10.0)
    low, high = stats.t.interval(0.95, 19, loc=time.mean() / 10, scale=stats.sem(time / 10))
    assert share_of(time, total) == pytest.approx((time.mean() / 10, low, high))


class Counting(np.ndarray[Any, np.dtype[np.float64]]):
    """An array that counts the numbers that are looked at, also in what is computed of it."""

    looked_at = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        Counting.looked_at += max(np.size(each) for each in inputs)
        plain = [each.view(np.ndarray) if isinstance(each, Counting) else each for each in inputs]
        made = getattr(ufunc, method)(*plain, **more)
        return made.view(Counting) if isinstance(made, np.ndarray) else made


def test_twice_as_many_names_are_twice_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(names: int) -> int:
        rows = [call(n + 1, 10 * n, 10 * n + 9, function=f"f{n}") for n in range(names)]
        path = find_critical_path(trace(rows))
        assert path is not None
        counted = dataclasses.replace(path, time_ns=path.time_ns.view(Counting))
        monkeypatch.setattr(critical_path_module, "find_critical_path", lambda _: counted)
        Counting.looked_at = 0
        assert len(critical_path(trace(rows))) == names + 2 * (names > 0) - 1
        return Counting.looked_at

    few, many = work(200), work(400)
    assert 0 < few < many < 3 * few
