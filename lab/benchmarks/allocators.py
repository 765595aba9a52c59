"""What allocating memory costs messages: glibc's thresholds, and huge pages.

By itself glibc returns freed memory of 128 KB and more to the kernel, and faults it in again for
the next message. Runs of one program with other tunables, in turns.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from lab.benchmarks.report import Comparison, log_ratio
from tests.programs.running import free_port
from tuner.decide.statistics import FloatArray

SIZES_KB = (64, 1024, 16384)
DEFAULT = "glibc's defaults"
TUNABLES = {
    DEFAULT: "",
    "no memory is returned": "glibc.malloc.mmap_threshold=33554432:"
    "glibc.malloc.trim_threshold=1073741824",
    "huge pages": "glibc.malloc.hugetlb=1",
}
ROUNDS = 20


def run() -> list[Comparison]:
    """The time of an echo by its size, with other tunables beside glibc's defaults."""
    ms = {name: np.empty((ROUNDS, len(SIZES_KB))) for name in TUNABLES}
    random = np.random.default_rng(0)
    for turn in range(ROUNDS):
        for name in random.permutation([*TUNABLES]):
            ms[str(name)][turn] = _echoes_ms(TUNABLES[str(name)])
    return [
        _comparison(size, name, ms[name][:, at], ms[DEFAULT][:, at])
        for at, size in enumerate(SIZES_KB)
        for name in TUNABLES
        if name != DEFAULT
    ]


def _echoes_ms(tunables: str) -> list[float]:
    """What one run prints."""
    root = Path(__file__).parents[2]
    program = str(Path(__file__).with_name("echo_program.py"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program, free_port(), *map(str, SIZES_KB)],
        env={**os.environ, "PYTHONPATH": str(root), "GLIBC_TUNABLES": tunables},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return [float(word) for word in done.stdout.split()]


def _comparison(size_kb: int, name: str, ours: FloatArray, theirs: FloatArray) -> Comparison:
    return Comparison(
        name=f"echo of {size_kb} KB",
        ours=name,
        theirs=DEFAULT,
        ours_value=float(np.median(ours)),
        theirs_value=float(np.median(theirs)),
        unit="ms",
        interval=log_ratio(theirs, ours).exp(),
    )
