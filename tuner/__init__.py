"""rpc-tuner finds the best `torch.distributed.rpc` configuration for a program.

`tune` is the search, `load_study` opens one of before, `load_rpc_options` gives `init_rpc` what it
recommended; `sweep` measures a workload over its own options, `profile` shows what happens on all
ranks of a program, `read_trace` reads a trace. The commands are `python -m tuner.search`, `report`,
`dashboard`, `export` and `analyze`, or `rpc-tuner search` and so on.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.api import load_study, tune
    from tuner.recommended.loading import EnvironmentWarning, ThreadsWarning, load_rpc_options
    from tuner.searching.sweeping import sweep
    from tuner.trace.files.reading import read_trace
    from tuner.trace.record.profile import profile

__all__ = [
    "EnvironmentWarning",
    "ThreadsWarning",
    "load_rpc_options",
    "load_study",
    "profile",
    "read_trace",
    "sweep",
    "tune",
]
__version__ = "0.1.0"

_MODULES = {
    "load_study": "tuner.api",
    "EnvironmentWarning": "tuner.recommended.loading",
    "ThreadsWarning": "tuner.recommended.loading",
    "load_rpc_options": "tuner.recommended.loading",
    "profile": "tuner.trace.record.profile",
    "read_trace": "tuner.trace.files.reading",
    "sweep": "tuner.searching.sweeping",
    "tune": "tuner.api",
}


def __getattr__(name: str) -> Any:
    # Late: a command's --help does not wait for Optuna, nor a rank's first traced call for either.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
