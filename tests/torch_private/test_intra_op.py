"""Which threads of a process compute for PyTorch's operators."""

import subprocess
import sys

_COUNT = """
import sys, time, torch
from tuner.torch_private.intra_op import openmp_code, waiting_threads

def pool_threads():
    return [each for each, is_in_pool in waiting_threads(openmp_code()).items() if is_in_pool]

torch.set_num_threads(int(sys.argv[1]))
before = pool_threads()
torch.ones(500, 500).exp()
time.sleep(0.3)
print(len(before), len(pool_threads()))
"""


def _seen(threads: int) -> list[int]:
    command = [sys.executable, "-c", _COUNT, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [*map(int, done.stdout.split())]


def test_a_pool_is_seen_once_operators_have_run_in_parallel() -> None:
    assert _seen(3) == [0, 2]
    assert _seen(1) == [0, 0]
