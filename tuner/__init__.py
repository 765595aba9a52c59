"""rpc-tuner finds the best `torch.distributed.rpc` configuration for a program.

`tune` searches for it, `check` measures it again, `load_study` opens an earlier search, and
`load_rpc_options` gives `init_rpc` what was recommended. `sweep` measures a workload over its own
options, `profile` shows what happens on all ranks of a program, `read_trace` reads a trace, and
`forecast` and `changes` say what it tells of other configurations and of another program.
`Workload`, `Rank` and `World` are what a workload is written with, and `WorkloadError` is what it
raises. `rpc-tuner --help` lists the commands.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.api import check, load_study, shipped_workloads, tune
    from tuner.errors import MissingPackageError
    from tuner.present.changes import changes
    from tuner.present.what_if import forecast
    from tuner.recommended.loading import EnvironmentWarning, ThreadsWarning, load_rpc_options
    from tuner.searching.sweeping import sweep
    from tuner.trace.files.reader import read_trace
    from tuner.trace.record.profile import profile
    from workloads import Rank, Workload, WorkloadError, World

__all__ = [
    "EnvironmentWarning",
    "MissingPackageError",
    "Rank",
    "ThreadsWarning",
    "Workload",
    "WorkloadError",
    "World",
    "changes",
    "check",
    "forecast",
    "load_rpc_options",
    "load_study",
    "profile",
    "read_trace",
    "shipped_workloads",
    "sweep",
    "tune",
]
__version__ = "0.1.0"

_NAMES = {
    "tuner.api": ("check", "load_study", "shipped_workloads", "tune"),
    "tuner.errors": ("MissingPackageError",),
    "tuner.present.changes": ("changes",),
    "tuner.present.what_if": ("forecast",),
    "tuner.recommended.loading": ("EnvironmentWarning", "ThreadsWarning", "load_rpc_options"),
    "tuner.searching.sweeping": ("sweep",),
    "tuner.trace.files.reader": ("read_trace",),
    "tuner.trace.record.profile": ("profile",),
    "workloads": ("Rank", "Workload", "WorkloadError", "World"),
}


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _NAMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Late: neither a command's --help nor a rank's first traced call waits for all of it.
    from tuner.errors import telling_what_is_missing
    from tuner.workloads_package import own_workloads

    if module == "workloads":
        return getattr(own_workloads(), name)
    with telling_what_is_missing():
        return getattr(importlib.import_module(module), name)
