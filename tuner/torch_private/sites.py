"""Where in its source a program issues a call, and where a function is defined: `main.py:42`.

A path is relative to the program's working directory where the file is in it, else to the longest
entry of `sys.path` that has it; that of a library, to the folder of all libraries; any other is the
file's name. Of a decorated function the line is that of its first decorator, as in its code object.

It keeps texts, and of a program's objects only code.
"""

import os
import re
import sys
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from sys import _getframe
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import torch

_PYTHON, _LIBRARY, _IF_MAIN, _PROGRAM = range(4)
"""Whose a file is: PyTorch's, ours or the standard library's; installed, as a library or a command;
no file, but what is typed or given to `python -c` is the program's; the program's own."""
_INSTALLED = re.compile(r".*/(site|dist)-packages/(.+)", re.DOTALL)
_MOST_KNOWN, _MOST_FRAMES, _MOST_WRAPPED = 10_000, 200, 20
_kinds: dict[str, int] = {}
_Sites = dict[tuple[int, int], str]
"""By the identity of a code object and a place in it: to find the line in a long function would
take as long as a tenth of a call."""
_sites: _Sites = {}
_library_sites: _Sites = {}
_codes: dict[int, CodeType] = {}
"""Those of both, so that none gets the identity of another."""


def site_here(skipped: int, most_often: int = 0) -> str:
    """Where the program is in this thread: its innermost frame, or a library's if there is none.

    Empty if neither is on the stack. The first `skipped` frames from here are ours, and none of the
    first `most_often` is the program's: the next one is in most calls. Every line slows each call,
    and every frame that is looked at the most.
    """
    if most_often:
        try:
            above = _getframe(most_often)
        except ValueError:
            return ""  # there are no others
        if site := _sites.get((id(above.f_code), above.f_lasti)):
            return site
    return site_of(_getframe(skipped))


def site_of(innermost: FrameType) -> str:
    """The same of a stack, by its innermost frame."""
    frame: FrameType | None = innermost
    library, left = None, _MOST_FRAMES
    while frame is not None and left:
        filename = frame.f_code.co_filename
        kind = _kinds.get(filename)
        if kind is None:
            kind = _kind_of(filename)
        if kind == _PROGRAM or (kind == _IF_MAIN and frame.f_globals.get("__name__") == "__main__"):
            return _site_of(frame, _sites)
        if kind == _LIBRARY and library is None:
            library = frame
        frame = frame.f_back
        left -= 1
    return "" if library is None else _site_of(library, _library_sites)


def is_own(code: CodeType) -> bool:
    """Whether this is code of PyTorch or of this package."""
    return code.co_filename.startswith(_own_folders())


def site_of_callback(function: Any, skipped: int) -> str:
    """The same where a callback of a library or of PyTorch is added; empty for one of the program.

    The call of a proxy is issued by such a callback, on another thread.
    """
    if type(function) is not FunctionType:
        return ""
    filename = function.__code__.co_filename
    kind = _kinds.get(filename)
    if kind is None:
        kind = _kind_of(filename)
    return "" if kind in (_PROGRAM, _IF_MAIN) else site_here(skipped + 1)


def _site_of(frame: FrameType, known: _Sites) -> str:
    """The site of a frame, which is remembered; of very many, one is not known."""
    code = frame.f_code
    key = id(code), frame.f_lasti
    if (site := known.get(key)) is not None:
        return site
    if (line := frame.f_lineno) is None or len(known) >= _MOST_KNOWN:
        return ""
    _codes[id(code)] = code
    site = known[key] = f"{_path(code.co_filename)}:{line}"
    return site


def definition_of(function: Any, method: str = "") -> str:
    """Where a function is defined, and not what decorates it, or a method of a class; of a class
    its `__init__`, of another object its `__call__`; empty where that is not in Python.

    It runs no code of the program.
    """
    try:
        found = _in_class(function, method) if method else function
        for _ in range(_MOST_WRAPPED):
            kind = type(found)
            if kind is FunctionType:
                wrapped = getattr(found, "__wrapped__", None)
                if wrapped is None:
                    code = found.__code__
                    return f"{_path(code.co_filename)}:{code.co_firstlineno}"
                found = wrapped
            elif kind in (MethodType, classmethod, staticmethod):
                found = found.__func__
            elif kind is partial:
                found = found.func
            elif issubclass(kind, type):
                found = _in_class(found, "__init__")
            else:
                found = _in_class(kind, "__call__")
    except Exception:
        pass  # a class that is none
    return ""


def _in_class(kind: Any, name: str) -> Any:
    """What a class has by this name, without asking its descriptors."""
    for base in kind.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return None


def _kind_of(filename: str) -> int:
    """Whose a file is, by its name."""
    if filename.startswith("<"):
        kind = _IF_MAIN
    elif filename.startswith(_own_folders()):
        kind = _PYTHON
    elif _INSTALLED.search(filename):
        kind = _LIBRARY
    elif filename.startswith(f"{Path(os.__file__).parent}{os.sep}"):
        kind = _PYTHON
    else:
        # A library's command begins in a script beside the interpreter.
        is_command = sys.executable and Path(filename).parent == Path(sys.executable).parent
        kind = _LIBRARY if is_command else _PROGRAM
    if len(_kinds) < _MOST_KNOWN:
        _kinds[filename] = kind
    return kind


@cache
def _own_folders() -> tuple[str, ...]:
    """Those of PyTorch and of this package, which may be installed anywhere."""
    return f"{Path(torch.__file__).parent}{os.sep}", f"{Path(__file__).parents[1]}{os.sep}"


@cache
def _roots() -> list[Path]:
    """The working directory, if there is one, and then the entries of `sys.path`, longest first."""
    entries = {Path(entry) for entry in sys.path if isinstance(entry, str)}
    roots = sorted(filter(Path.is_absolute, entries), key=lambda entry: -len(entry.parts))
    with suppress(OSError):
        roots.insert(0, Path.cwd())
    return roots


@lru_cache(_MOST_KNOWN)
def _path(filename: str) -> str:
    if filename.startswith("<") or not Path(filename).is_absolute():
        return os.path.normpath(filename)
    if library := _INSTALLED.search(filename):
        return library[2]
    for path in (Path(filename), Path(os.path.realpath(filename))):
        for root in _roots():
            if path.is_relative_to(root):
                return str(path.relative_to(root))
    return Path(filename).name
