"""The package `workloads` that comes with rpc-tuner, where another one of that name may be near."""

import importlib
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

NAME = "workloads"
_HOME = Path(__file__).resolve().parents[1]


def own_workloads() -> ModuleType:
    """Our package `workloads`, imported now if need be, whatever comes first on `sys.path`.

    ImportError if another package of that name has been imported before.
    """
    loaded = sys.modules.get(NAME)
    if loaded is None:
        return _imported()
    # The folder of a package, or the file of any other module.
    places = [*getattr(loaded, "__path__", ()), getattr(loaded, "__file__", None) or ""]
    if (found := Path(places[0]).resolve()) != _HOME / NAME:
        raise ImportError(
            f"rpc-tuner needs its own package {NAME}, and {found} was imported first: rename that "
            "one",
            name=NAME,
        )
    return loaded


def _imported() -> ModuleType:
    spec = PathFinder.find_spec(NAME, [str(_HOME)])
    if spec is None or spec.loader is None:
        return importlib.import_module(NAME)
    module = sys.modules[NAME] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[NAME]
        raise
    return module
