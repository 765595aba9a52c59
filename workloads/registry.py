"""From the name of a workload to its class."""

import difflib
import importlib
import sys
from pathlib import Path

from workloads.contract import Workload, WorkloadError

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


def load_workload(reference: str) -> type[Workload]:
    """The class behind `udf`, `package.module:Class` or `path/to/file.py:Class`.

    A file is imported under its own name, from its own folder, so that the functions it serves
    are found by the processes that call them. Raises WorkloadError.
    """
    where, colon, class_name = SHIPPED.get(reference, reference).rpartition(":")
    if not colon or not where or not class_name:
        raise WorkloadError([_unknown(reference)])
    try:
        if where.endswith(".py"):
            path = Path(where).resolve()
            if not path.is_file():
                raise WorkloadError([f"there is no file {where}"])
            if str(path.parent) not in sys.path:
                sys.path.insert(0, str(path.parent))
            module = importlib.import_module(path.stem)
            if Path(str(module.__file__)).resolve() != path:
                raise WorkloadError(
                    [f"{where} cannot be imported: another module is named {path.stem}"]
                )
        else:
            # `python -m` finds modules of the working directory; a console script does not.
            if str(Path.cwd()) not in sys.path:
                sys.path.insert(0, str(Path.cwd()))
            module = importlib.import_module(where)
    except WorkloadError:
        raise
    except Exception as error:
        # Whatever the person's module does on import is theirs to mend, so it is told, not raised.
        detail = f"{type(error).__name__}: {error}"
        raise WorkloadError([f"cannot import {where}: {detail}"]) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise WorkloadError([f"{where} has no class {class_name}{_classes(module)}"])
    if not issubclass(found, Workload):
        raise WorkloadError([f"{reference} is not derived from workloads.Workload"])
    return found


def _unknown(reference: str) -> str:
    close = difflib.get_close_matches(reference, SHIPPED, n=1)
    hint = f"; did you mean {close[0]}?" if close else "."
    return (
        f"unknown workload {reference!r}{hint} Known: {', '.join(SHIPPED)}; "
        "your own is named package.module:Class or path/to/file.py:Class"
    )


def _classes(module: object) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Workload) and value is not Workload
    ]
    return f"; it has {', '.join(names)}" if names else ""
