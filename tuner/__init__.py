"""rpc-tuner finds the best `torch.distributed.rpc` settings for a program.

`tune` is the search, `profile` what happens on all ranks of a program; the commands are
`python -m tuner.search` and `python -m tuner.analyze`, or `rpc-tuner search` and so on.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.api import tune
    from tuner.trace.live.profile import profile

__all__ = ["profile", "tune"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Late: a command's --help does not wait for Optuna, nor a rank's first traced call for either.
    if name == "tune":
        from tuner.api import tune

        return tune
    if name == "profile":
        from tuner.trace.live.profile import profile

        return profile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
