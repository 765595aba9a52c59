"""From the name of a workload to its class."""

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from workloads.contract import Workload, WorkloadError
from workloads.naming import unknown_workload

SHIPPED = {
    "builtin": "workloads.builtin:Builtin",
    "udf": "workloads.udf:Udf",
    "udf_sleep": "workloads.udf_sleep:UdfSleep",
    "light": "workloads.light:Light",
    "payload": "workloads.payload:Payload",
    "nested": "workloads.nested:Nested",
    "parameter_server": "workloads.parameter_server:ParameterServer",
    "cartpole": "workloads.cartpole:CartPole",
}

OUR_PACKAGES = ("workloads", "tuner")


def load_workload(reference: str) -> type[Workload]:
    """The class behind `udf`, `package.module:Class` or `path/to/file.py:Class`.

    A file is imported under its own name, from its own folder, so that the functions it serves
    are found by the processes that call them.

    Args:
        reference: A file is looked for from the working folder.

    Raises:
        WorkloadError: There is no such workload, or it cannot be imported; the sentence says why.
    """
    where, colon, class_name = SHIPPED.get(reference, reference).rpartition(":")
    if not colon or not where or not class_name:
        raise WorkloadError([unknown_workload(reference, SHIPPED)])
    try:
        module = _import(where)
    except WorkloadError:
        raise
    except Exception as error:
        # Whatever the person's module raises on import, they can repair it if they know it.
        detail = f"{type(error).__name__}: {error}{_hidden(error)}"
        raise WorkloadError([f"cannot import {where}: {detail}"]) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise WorkloadError([f"{where} has no class {class_name}{_classes(module)}"])
    if not issubclass(found, Workload):
        raise WorkloadError([f"{reference} is not derived from workloads.Workload"])
    return found


def _import(where: str) -> ModuleType:
    """The module of a file, or of that name, found from the working folder too."""
    if not where.endswith(".py"):
        # `python -m` finds modules of the working folder; a console script does not.
        _look_in(Path.cwd())
        return importlib.import_module(where)
    path = Path(where).resolve()
    if not path.is_file():
        raise WorkloadError([f"there is no file {where}"])
    _look_in(path.parent)
    module = importlib.import_module(path.stem)
    if Path(str(module.__file__)).resolve() != path:
        raise WorkloadError([f"{where} cannot be imported: another module is named {path.stem}"])
    return module


def _look_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _hidden(error: Exception) -> str:
    """The sentence's end where a package of ours hides the person's of that name; else empty."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if name not in OUR_PACKAGES or name not in sys.modules:
        return ""
    ours = [Path(each).resolve().parent for each in sys.modules[name].__path__]
    elsewhere = [entry for entry in sys.path if Path(entry).resolve() not in ours]
    theirs = PathFinder.find_spec(name, elsewhere)
    if theirs is None:
        return ""
    place = [*(theirs.submodule_search_locations or ()), theirs.origin][0]
    return f"; rpc-tuner has a package {name} of its own, which hides {place}: rename that one"


def _classes(module: object) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Workload) and value is not Workload
    ]
    return f"; it has {', '.join(names)}" if names else ""
