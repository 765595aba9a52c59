import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.world.rank.run_rank import OverriddenError, _work, process_cpu_clock

BURN = """
import time
while time.process_time() < 0.2:
    pass
print("burnt", flush=True)
input()
"""


def test_the_cpu_clock_of_a_process_counts_its_cpu_time() -> None:
    before = time.process_time()
    assert before <= time.clock_gettime(process_cpu_clock(os.getpid())) <= time.process_time()
    command, pipe = [sys.executable, "-c", BURN], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as burner:
        assert burner.stdout is not None
        burner.stdout.readline()
        spent_s = time.clock_gettime(process_cpu_clock(burner.pid))
        burner.communicate("\n")
    assert 0.2 <= spent_s < 0.5


def test_where_affinity_is_forbidden_the_failure_names_the_knob(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(index: int, ranks: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("tuner.process_knobs.bind_rank", refuse)
    task: Any = SimpleNamespace(values={"cpu_binding": "equal"}, place=(0, 2), order=None)
    parent: Any = SimpleNamespace(enter=lambda phase: None)
    with pytest.raises(OverriddenError, match="cpu_binding could not be set: Operation not perm"):
        _work(task, parent)
