"""The machine and the software that a measurement holds for."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from tuner.cpus import usable_cpus

_COMPARED = {"torch": "torch", "cpu_model": "CPU model", "cpu_count": "logical CPUs"}
"""What makes measurements incomparable where it differs, and what people call it."""


class Environment(BaseModel):
    """What a study's numbers depend on beside its plan."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    torch: str
    python: str
    cpu_model: str
    cpu_count: int
    """Logical CPUs that this process may use, by its affinity and its container's quota."""
    memory_gb: float
    kernel: str

    @classmethod
    def here(cls) -> "Environment":
        """The environment of this process; torch is not imported for it."""
        try:
            torch = version("torch")
        except PackageNotFoundError:
            torch = "not installed"
        return cls(
            torch=torch,
            python=platform.python_version(),
            cpu_model=_cpu_model(),
            cpu_count=usable_cpus(),
            memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
            kernel=platform.release(),
        )

    def differences(self, other: "Environment") -> list[str]:
        """The differences that make measurements incomparable, each as `label: ours, theirs`."""
        return [
            f"{label}: {ours}, {theirs}"
            for name, label in _COMPARED.items()
            if (ours := getattr(self, name)) != (theirs := getattr(other, name))
        ]


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
