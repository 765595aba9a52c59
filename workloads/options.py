"""A workload's options: the annotated attributes of its class."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from workloads.naming import unknown_option

OPTION_TYPES = (bool, int, float, str)
_KINDS: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in OPTION_TYPES}
_MOST = 2**63
# JSON Schema's words for what limits a value.
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "minLength": "at least {} characters long",
    "pattern": "text that matches {}",
}


@dataclass(frozen=True)
class Option:
    """One option: `default` has type `kind`, which is bool, int, float or str."""

    name: str
    kind: type
    default: bool | int | float | str
    summary: str
    annotation: Any = field(default=None, compare=False, repr=False)
    """The full type, with its limits, which pydantic validates values by."""

    @property
    def limits(self) -> str:
        """What a value must be beside its kind, such as `at least 1`; empty if anything goes."""
        schema = self._adapter.json_schema()
        limits = [text.format(schema[word]) for word, text in _LIMITS.items() if word in schema]
        values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
        return " and ".join(limits) or " or ".join(map(str, values))

    def is_within_limits(self, value: object) -> bool:
        """Whether a value of the right kind is within the limits."""
        return self.annotation is self.kind or _is_valid(self._adapter, value)

    # Every rank of every world reads its options, and pydantic takes a while to make an adapter.
    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.annotation)


def options_of(workload: type) -> tuple[dict[str, Option], list[str]]:
    """The options that a class and its bases declare, by name, and the mistakes in them."""
    summaries: dict[str, str] = {}
    for base in _declaring(workload):
        summaries |= _attribute_docstrings(base)
    return _declared(workload, summaries)


def _declaring(workload: type) -> list[type]:
    """The classes whose attributes are options, the most general class first."""
    return [
        base
        for base in reversed(workload.__mro__)
        if base is not object and not base.__module__.startswith("workloads.contract")
    ]


def _declared(workload: type, summaries: Mapping[str, str]) -> tuple[dict[str, Option], list[str]]:
    options: dict[str, Option] = {}
    problems: list[str] = []
    for base in _declaring(workload):
        unannotated = [
            name
            for name, value in vars(base).items()
            if type(value) in OPTION_TYPES
            and not name.startswith("_")
            and not any(hasattr(other, name) for other in base.__mro__[1:])
            and name not in inspect.get_annotations(base)
        ]
        problems += [
            f"{workload.__name__}.{name} has no type; write `{name}: "
            f"{type(vars(base)[name]).__name__} = {vars(base)[name]!r}`"
            for name in unannotated
        ]
    for name, (base, annotation) in _annotations(workload).items():
        full, unknown = _evaluated(annotation, base)
        kind = _kind(full)
        if unknown:
            problems.append(f"{workload.__name__}.{name} has a type that is not there: {unknown}")
        elif kind is ClassVar or get_origin(kind) is ClassVar:
            continue
        elif kind not in OPTION_TYPES:
            problems.append(
                f"{workload.__name__}.{name} must be bool, int, float, str or a Literal of str"
            )
        elif not hasattr(workload, name):
            problems.append(f"{workload.__name__}.{name} has no default")
        elif type(default := getattr(workload, name)) is not kind and not (
            kind is float and type(default) is int
        ):
            problems.append(f"{workload.__name__}.{name} is {kind.__name__}, got {default!r}")
        else:
            option = Option(name, kind, kind(default), summaries.get(name, ""), full)
            options[name] = option
            if not option.is_within_limits(option.default):
                problems.append(
                    f"{workload.__name__}.{name} must be {option.limits}, got {default!r}"
                )
    return options, problems


def _kind(annotation: Any) -> Any:
    """The plain type of an annotation, without its limits; itself if it has none."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        kinds = {type(value) for value in get_args(annotation)}
        return str if kinds == {str} else annotation
    return annotation


def _is_valid(adapter: TypeAdapter[Any], value: object) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def _annotations(workload: type) -> dict[str, tuple[type, Any]]:
    """The annotated public attributes, each with the most derived class that annotates it."""
    return {
        name: (base, annotation)
        for base in reversed(workload.__mro__)
        for name, annotation in inspect.get_annotations(base).items()
        if not name.startswith("_")
    }


def _evaluated(annotation: Any, base: type) -> tuple[Any, str | None]:
    """The type behind an annotation, or the name in it that is missing at run time."""
    if not isinstance(annotation, str):
        return annotation, None
    holder = type("Holder", (), {"__annotations__": {"it": annotation}})
    try:
        return get_type_hints(holder, vars(sys.modules[base.__module__]), {}, include_extras=True)[
            "it"
        ], None
    except NameError as error:
        return None, error.name


def read_options(
    workload: type, given: Mapping[str, object]
) -> tuple[dict[str, bool | int | float | str], list[str]]:
    """Every option's value, text converted to the option's type, and the mistakes in `given`."""
    # Without the summaries: reading those takes longer than all the rest, in every rank.
    options, problems = _declared(workload, {})
    values: dict[str, Any] = {name: option.default for name, option in options.items()}
    for name, raw in given.items():
        if name not in options:
            known = {each.name: (each.kind.__name__, each.default) for each in options.values()}
            problems.append(unknown_option(name, known))
            continue
        kind = options[name].kind
        if mistake := kind_mistake(name, kind.__name__, raw):
            problems.append(mistake)
            continue
        value: Any = _KINDS[kind].validate_python(raw)
        if isinstance(value, int | float) and not -_MOST < value < _MOST:
            problems.append(f"option {name} must be a number of at most 64 bits, got {raw!r}")
        elif options[name].is_within_limits(value):
            values[name] = value
        else:
            problems.append(f"option {name} must be {options[name].limits}, got {raw!r}")
    return values, problems


def kind_mistake(name: str, kind: str, raw: object) -> str | None:
    """What to say of a value that an option of that kind cannot have; None if it can."""
    (found,) = [each for each in OPTION_TYPES if each.__name__ == kind]
    if _is_valid(_KINDS[found], raw):
        return None
    return f"option {name} must be {kind}, got {raw!r}"


def _attribute_docstrings(cls: type) -> dict[str, str]:
    """The string literal after each annotated attribute, which Python does not keep."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}  # a class that was made in a debugger, say, has no source
    (definition,) = tree.body
    if not isinstance(definition, ast.ClassDef):
        return {}
    found = {}
    for statement, after in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[statement.target.id] = inspect.cleandoc(after.value.value)
    return found
