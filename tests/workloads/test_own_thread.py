import threading

import pytest

from workloads.own_thread import OwnThread


def test_work_is_done_in_order_on_one_other_thread() -> None:
    own = OwnThread()
    done: list[int] = []
    futures = [own.submit(done.append, number) for number in range(100)]
    threads = {own.submit(threading.get_ident).wait() for _ in range(3)}
    for future in futures:
        future.wait()
    own.close()
    assert done == list(range(100))
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_what_the_work_raises_is_raised_by_its_future_only() -> None:
    own = OwnThread()
    failed, fine = own.submit(divmod, 1, 0), own.submit(divmod, 7, 2)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        failed.wait()
    assert fine.wait() == (3, 1)
    own.close()


def test_closing_waits_for_what_was_submitted() -> None:
    own, gate = OwnThread(), threading.Event()
    future = own.submit(gate.wait)
    threading.Timer(0.05, gate.set).start()
    own.close()
    assert future.done()
