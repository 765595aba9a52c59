"""What a process has imported that a later one may import beforehand. Standard library only."""

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

_READ_AT_IMPORT = (
    "BLIS_", "GLIBC_", "GOMP_", "KMP_", "LANG", "LC_", "LD_", "MALLOC_", "MKL_", "NUMEXPR_", "OMP_",
    "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH", "TRITON_", "VECLIB_",
)  # fmt: skip
"""How variables begin that Python or a library reads once, as it is loaded."""
_SET_LATER = "PYTHONWARNINGS"
"""It can be put into effect at any time, and libraries set it for the children they start."""


def is_installed(file: str) -> bool:
    """Whether a module's file belongs to Python or to an installed package.

    One that was installed in editable mode is a file of whoever edits it.
    """
    if {"site-packages", "dist-packages"} & set(Path(file).parts):
        return True
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return any(file.startswith(folder + os.sep) for folder in folders)


def installed_modules() -> list[str]:
    """The modules that are imported now, in that order, without the program's own ones."""
    names = []
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        file = getattr(module, "__file__", None)
        # Otherwise it cannot be imported by that name: `torch.ops`, `six.moves`.
        if isinstance(file, str) and getattr(spec, "name", None) == name and is_installed(file):
            names.append(name)
    return names


def read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that have their effect as a library is imported, and none later."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_IMPORT) and name != _SET_LATER
    }
