"""The facts about torch that the code depends on, compared with the installed torch."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import constants

from tuner.plan.knobs import CHANNELS, NUM_WORKER_THREADS, RPC_TIMEOUT, TRANSPORTS
from tuner.torch_private import operators
from tuner.torch_private.operators import OperatorProfiler, operator_count
from tuner.torch_private.support import missing_support


def test_this_torch_has_what_the_tuner_needs_and_one_before_2_7_lacks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert missing_support() == []
    monkeypatch.setattr(torch._C._profiler, "_ExperimentalConfig", lambda verbose=False: None)
    (lack,) = missing_support()
    assert lack.endswith(" cannot record the operators of all threads: torch 2.7 can")


def test_defaults_are_those_of_torch() -> None:
    assert NUM_WORKER_THREADS.default == constants.DEFAULT_NUM_WORKER_THREADS
    assert RPC_TIMEOUT.default == constants.DEFAULT_RPC_TIMEOUT_SEC


def test_known_transports_and_channels_are_known_to_torch() -> None:
    for name in TRANSPORTS.known:
        rpc.TensorPipeRpcBackendOptions(_transports=[name])
    for name in CHANNELS.known:
        if "cuda" not in name:
            rpc.TensorPipeRpcBackendOptions(_channels=[name])
    with pytest.raises(RuntimeError, match="Unknown transport"):
        rpc.TensorPipeRpcBackendOptions(_transports=["carrier_pigeon"])


def add_ones(count: int) -> None:
    values = torch.ones(4)
    for _ in range(count):
        values = values + 1


def test_kineto_says_how_many_operators_it_records_and_ceases_when_it_is_told_to() -> None:
    assert operator_count() is not None
    profiler = OperatorProfiler(most=20_000)
    until = time.monotonic() + 30
    with ThreadPoolExecutor(2) as pool:
        while not profiler.is_cut and time.monotonic() < until:
            assert all(each is None for each in pool.map(add_ones, [500, 500]))
        assert profiler.is_cut
        stopped_ns = time.time_ns()
        assert all(each is None for each in pool.map(add_ones, [20_000, 20_000]))
    recorded = profiler.stop()
    assert recorded.until_ns is not None
    assert recorded.until_ns < stopped_ns
    assert 20_000 - 3 * 512 < len(recorded.spans) < 200_000
    assert max(start_ns for _, _, start_ns, _, _ in recorded.spans) < stopped_ns
    assert not recorded.was_disturbed


def test_few_operators_are_all_recorded() -> None:
    profiler = OperatorProfiler()
    add_ones(100)
    recorded = profiler.stop()
    assert sum(name == "aten::add" for name, *_ in recorded.spans) == 100
    assert recorded.until_ns is None


def test_without_a_count_time_and_memory_bound_how_many_operators_there_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "_BLOCKS", "no_such_symbol")
    assert operator_count() is None
    used = {"s": 1.0, "bytes": 10**9}
    monkeypatch.setattr(time, "process_time", lambda: used["s"])
    monkeypatch.setattr(operators, "_resident_bytes", lambda: used["bytes"])
    at_most = operators._most_recorded()
    used["s"] += 10.0
    assert at_most() == 0  # it computes, and the memory does not grow
    used["bytes"] += 20_000_000
    assert at_most() == 100_000
    used["s"] = 1.01
    assert at_most() == pytest.approx(10_000)
