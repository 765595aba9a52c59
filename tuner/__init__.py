"""rpc-tuner finds the best `torch.distributed.rpc` settings for a program.

`tune` is the search; the commands are `python -m tuner.search` and `rpc-tuner search`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.api import tune

__all__ = ["tune"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Late, so that a command's --help does not wait for Optuna and matplotlib.
    if name == "tune":
        from tuner.api import tune

        return tune
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
