"""The facts about torch that the code depends on, compared with the installed torch."""

import pytest
import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import constants

from tuner.plan.knobs import CHANNELS, NUM_WORKER_THREADS, RPC_TIMEOUT, TRANSPORTS
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
