"""What all tests of workloads share."""

import sys
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def one_intra_op_thread() -> Iterator[None]:
    """As in a world: two threads would wait for each other wherever the CPUs are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def many_switches() -> Iterator[None]:
    """The interpreter switches threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
