"""What allocating memory costs messages: glibc's thresholds, and huge pages.

By itself glibc returns freed memory of 128 KB and more to the kernel, and faults it in again for
the next message. Runs of one program with other tunables, in turns.
"""

import numpy as np

from lab.benchmarks.programs import printed
from lab.benchmarks.report import Comparison, log_ratio

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
        for name in map(str, random.permutation([*TUNABLES])):
            ms[name][turn] = printed("echo", *SIZES_KB, GLIBC_TUNABLES=TUNABLES[name])
    usual = ms.pop(DEFAULT)
    return [
        Comparison(
            f"echo of {size} KB", name, DEFAULT, float(np.median(ours[:, at])),
            float(np.median(usual[:, at])), "ms",
            interval=log_ratio(usual[:, at], ours[:, at]).exp(),
        )
        for at, size in enumerate(SIZES_KB)
        for name, ours in ms.items()
    ]  # fmt: skip
