"""What is wrong with the name of a workload, or its options, as its source says by itself: to
import it takes as long as torch does. Where the source does not say, nothing is wrong."""

import ast
import importlib.util
from collections.abc import Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from workloads.naming import unknown_option
from workloads.options import OPTION_TYPES, kind_mistake

_TYPES = {kind.__name__ for kind in OPTION_TYPES}
_BASE = "Workload"


def mistakes_in_source(reference: str, given: Mapping[str, object]) -> list[str]:
    """Of `package.module:Class` or `file.py:Class`, and of the options that it is given."""
    where, _, name = reference.rpartition(":")
    path = Path(where) if where.endswith(".py") else _file_of(where)
    if isinstance(path, str):
        return [path]
    if path is None or not path.is_file():
        return [f"there is no file {where}"] if where.endswith(".py") else []
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        return [f"cannot import {where}: {type(error).__name__}: {error}"]
    except (OSError, ValueError, RecursionError):
        return []
    found = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
    if name not in found:
        bases = {each for each, made in found.items() if _is_plain(made)}
        hint = f"; it has {', '.join(bases)}" if bases else ""
        return [] if _may_bind(tree, name) else [f"{where} has no class {name}{hint}"]
    options = _options(found[name]) if _is_plain(found[name]) else None
    if options is None:
        return []
    mistakes = (
        kind_mistake(each, options[each][0], raw) if each in options
        else unknown_option(each, options)
        for each, raw in given.items()
    )  # fmt: skip
    return [each for each in mistakes if each]


def _file_of(module: str) -> Path | str | None:
    """The source of a module, without importing it or a package around it; None if it may be
    anywhere, or why it cannot be imported."""
    first, *rest = module.split(".")
    spec: ModuleSpec | None = PathFinder.find_spec(first, [str(Path.cwd())])
    with suppress(ImportError, ValueError):
        spec = spec or importlib.util.find_spec(first)
    if spec is None:
        return f"cannot import {module}: ModuleNotFoundError: No module named {first!r}"
    for part in rest:
        # A package may change where its modules are: one that is not found may be there.
        places = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(part, [*places]) if places else None
    origin = spec.origin if spec else None
    return Path(origin) if origin and origin.endswith(".py") else None


def _is_plain(made: ast.ClassDef) -> bool:
    """Whether `Workload` is its only base."""
    names = [ast.unparse(base).rpartition(".")[2] for base in made.bases]
    return names == [_BASE] and not made.keywords and not made.decorator_list


def _options(made: ast.ClassDef) -> dict[str, tuple[str, object]] | None:
    """The kind and the default of each option; None where the source does not tell all."""
    found: dict[str, tuple[str, object]] = {}
    for each in made.body:
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
            continue
        kind = ast.unparse(each.annotation).strip("'\"")
        if kind not in _TYPES or each.value is None:
            return None
        try:
            default = ast.literal_eval(each.value)
        except ValueError:
            return None
        found[each.target.id] = (kind, float(default) if kind == "float" else default)
    return found


def _may_bind(tree: ast.Module, name: str) -> bool:
    """Whether a module may have the name by something else than a class at its top."""
    for node in ast.walk(tree):
        match node:
            case ast.alias(name=bound, asname=other):
                bound = (other or bound).partition(".")[0]
            case ast.ClassDef(name=bound) | ast.FunctionDef(name=bound) | ast.Name(id=bound):
                pass
            case _:
                continue
        if bound in (name, "*", "__getattr__", "globals", "setattr", "exec", "vars"):
            return True
    return False
