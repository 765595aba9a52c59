import os
import subprocess
import sys
import time

from tuner.world.rank.run_rank import process_cpu_clock

BURN = """
import time
while time.process_time() < 0.2:
    pass
print("burnt", flush=True)
input()
"""


def test_the_cpu_clock_of_another_process_counts_its_cpu_time() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as burner:
        assert burner.stdout is not None
        burner.stdout.readline()
        spent_s = time.clock_gettime(process_cpu_clock(burner.pid))
        burner.communicate("\n")
    assert 0.2 <= spent_s < 0.5


def test_the_cpu_clock_of_this_process_is_process_time() -> None:
    clock = process_cpu_clock(os.getpid())
    before = time.process_time()
    assert before <= time.clock_gettime(clock) <= time.process_time()
