"""Runs a program in a process that was forked for it, as Python would in a new process.
`WarmStarter` lists what differs."""

import fcntl
import importlib
import importlib.machinery
import io
import linecache
import os
import runpy
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ORDER_VARIABLE = "RPC_TUNER_ORDER"


def become(inherited: Mapping[str, Any], descriptors: Mapping[int, int]) -> None:
    """Take over what a new process inherits: its `cwd`, `environment`, `blocked` and `ignored`
    signals, and open files: `descriptors` says which one that is open now gets each number."""
    _place(descriptors)
    os.chdir(inherited["cwd"])
    warned_before = os.environ.get("PYTHONWARNINGS", "")
    os.environ.clear()
    os.environ.update(inherited["environment"])
    _warn(warned_before, os.environ.get("PYTHONWARNINGS", ""))
    for number in inherited["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, inherited["blocked"])
    _reseed()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and stream.isatty():
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def run(task: Mapping[str, Any]) -> None:
    """Run a script, a module or code as `__main__`; raises what it raises. The task has `kind`
    (`script`, `module` or `code`), `name` (the path, the module or the code), `argv` (all that
    comes after it), `orig_argv`; and `path_of_hook`, the `sys.path` that it will have, where that
    is another one than now."""
    kind, name = task["kind"], task["name"]
    sys.orig_argv[:] = task["orig_argv"]
    sys.argv[:] = [{"script": name, "module": "-m", "code": "-c"}[kind], *task["argv"]]
    if not sys.flags.safe_path:
        if kind == "script":
            sys.path.insert(0, str(Path(name).resolve().parent))
        else:
            sys.path.insert(0, str(Path.cwd()) if kind == "module" else "")
    # As it is when Python has started.
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    main.__loader__ = importlib.machinery.BuiltinImporter
    main.__dict__.update(__annotations__={}, __builtins__=sys.modules["builtins"])
    _hook(task.get("path_of_hook", sys.path))
    try:
        if kind == "module":
            # What `python -m` calls.
            runpy._run_module_as_main(name)  # type: ignore[attr-defined]
        elif kind == "script":
            _run_script(name, main)
        else:
            _run_code(name, main)
    except BaseException as error:
        if not isinstance(error, SystemExit):
            sys.excepthook = _without_own_frames(sys.excepthook)
        raise


def _place(wanted: Mapping[int, int]) -> None:
    """Give each descriptor its number; those in the way are moved first."""
    above = max([2, *wanted, *wanted.values()]) + 1
    moved = {to: fcntl.fcntl(now, fcntl.F_DUPFD_CLOEXEC, above) for to, now in wanted.items()}
    for now in set(wanted.values()):
        os.close(now)
    for number, now in moved.items():
        os.dup2(now, number)
        os.close(now)


def _reseed() -> None:
    """Draw anew what a process draws as it starts; `random` does it by itself."""
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed()
    if (process := sys.modules.get("multiprocessing.process")) is not None:
        process.current_process().authkey = os.urandom(32)
        process.ORIGINAL_DIR = str(Path.cwd())  # type: ignore[attr-defined]


def _warn(before: str, now: str) -> None:
    """Have the filters of warnings that `now` asks for, in the place of those of `before`."""
    if now == before:
        return
    old, new = ([option for option in text.split(",") if option] for text in (before, now))
    options = [option for option in sys.warnoptions if option not in old]
    sys.warnoptions[:] = [*new, *(option for option in options if option not in new)]
    gone = _filters(old)
    kept = [each for each in warnings.filters if each not in gone]
    # In front of Python's own; those of -W and of libraries come first.
    place = next((place for place, each in enumerate(kept) if each in _FILTERS), len(kept))
    come = [each for each in _filters(new) if each not in kept[:place]]
    warnings.resetwarnings()
    warnings.filters[:] = [*kept[:place], *come, *kept[place:]]  # type: ignore[index]


def _filters(options: list[str]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings._processoptions(options)  # type: ignore[attr-defined]
        return list(warnings.filters)


_FILTERS = [each for each in warnings.filters if each not in _filters(sys.warnoptions)]
"""Those that Python has without any option."""


def _hook(path: list[str]) -> None:
    """What our sitecustomize does in a new process, with the `sys.path` that it has there."""
    if ORDER_VARIABLE in os.environ:
        before = sys.path
        sys.path = path
        try:
            importlib.import_module("rpc_tuner_hook").install(os.environ[ORDER_VARIABLE])
        except Exception as error:  # the program comes first
            print(f"rpc-tuner: the hook does not work here: {error!r}", file=sys.stderr)  # noqa: T201
        finally:
            sys.path = before


def _run_script(path: str, main: types.ModuleType) -> None:
    # Not by pathlib, which would take out the ./ that Python leaves there.
    absolute = path if path.startswith("/") else f"{Path.cwd()}/{path}"
    loader = importlib.machinery.SourceFileLoader("__main__", absolute)
    main.__dict__.update(__file__=absolute, __cached__=None, __loader__=loader)
    with io.open_code(absolute) as file:
        code = compile(file.read(), absolute, "exec", dont_inherit=True)
    exec(code, main.__dict__)  # noqa: S102


def _run_code(text: str, main: types.ModuleType) -> None:
    code = compile(f"{text}\n", "<string>", "exec", dont_inherit=True)
    if (keep_lines := getattr(linecache, "_register_code", None)) is not None:
        keep_lines("<string>" if _KEEPS_BY_NAME else code, text, "<string>")
    exec(code, main.__dict__)  # noqa: S102


_KEEPS_BY_NAME = linecache.cache.pop("<string>", None) is not None
"""Whether Python keeps the lines after -c by this name, for tracebacks: 3.13 has kept ours so.
Later versions keep them by the code."""


def _without_own_frames(hook: Any) -> Any:
    """An excepthook that shows what is in the program only, by the program's own excepthook."""
    own = {frame for frame, _ in traceback.walk_stack(sys._getframe(1))}

    def show(kind: type, error: BaseException, trace: types.TracebackType | None) -> None:
        while trace is not None and (
            trace.tb_frame in own or trace.tb_frame.f_code.co_filename == __file__
        ):
            trace = trace.tb_next
        sys.excepthook = hook
        hook(kind, error.with_traceback(trace), trace)

    return show
