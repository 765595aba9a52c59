"""Python imports this at its start, since its folder is on PYTHONPATH; then the person's own one.
Nothing here may fail: it runs before the program, in every Python process of it."""

import contextlib
import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes a while


def _import_the_next_one() -> None:
    """Import the sitecustomize that Python would have found without this folder."""
    ours = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _HERE]  # noqa: PTH100
    try:
        with contextlib.suppress(ImportError):
            __import__("sitecustomize")
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


if "RPC_TUNER_ORDER" in os.environ:
    try:
        importlib.import_module("rpc_tuner_hook").install(os.environ["RPC_TUNER_ORDER"])
    except Exception as error:  # the program comes first
        print(f"rpc-tuner: the hook does not work here: {error!r}", file=sys.stderr)  # noqa: T201
_import_the_next_one()
