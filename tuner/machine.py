"""The machine and the software of this process. Standard library only: it runs in programs, too."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tuner.cpus import topology, usable_cpus

COMPARED = {"torch": "torch", "cpu_model": "CPU model", "cpu_count": "logical CPUs"}
"""What makes measurements incomparable where it differs, and what people call it."""
TOPOLOGY = {"numa_nodes": "NUMA nodes", "threads_per_core": "threads per core"}
COMPARED_BOUND = {**COMPARED, **TOPOLOGY}
"""The same of measurements with bound ranks."""
DISTURBED_SHARE = 0.1
"""A run is disturbed if others took more than this share of the logical CPUs meanwhile."""
BINDING_COMPARED = {"cpu_count": COMPARED["cpu_count"], **TOPOLOGY}
"""What the shares of bound ranks depend on."""


def this_machine() -> dict[str, Any]:
    """What a measurement depends on beside its plan; torch is not imported for it."""
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = "not installed"
    nodes, threads = topology()
    return {
        "torch": torch,
        "python": platform.python_version(),
        "cpu_model": _cpu_model(),
        "cpu_count": usable_cpus(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "kernel": platform.release(),
        "numa_nodes": nodes,
        "threads_per_core": threads,
    }


def machine_differences(
    ours: Mapping[str, object], theirs: Mapping[str, object], compared: Mapping[str, str] = COMPARED
) -> list[str]:
    """The differences between the facts of two machines, each as `label: ours, theirs`.

    A topology that one of them does not say, as in an older file, is no difference. `compared` has
    the label of each fact that is compared.
    """
    return [
        f"{label}: {ours[name]}, {theirs[name]}"
        for name, label in compared.items()
        if ours[name] != theirs[name]
        and not (name in TOPOLOGY and None in (ours[name], theirs[name]))
    ]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
