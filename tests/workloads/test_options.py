from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from workloads.options import Option, options_of, read_options


class Base:
    calls: int = 4
    """Calls in flight."""
    _private: str
    _results: "list[Tensor]"  # type: ignore[name-defined] # noqa: F821 - not there at run time


class Narrow(Base):
    version: ClassVar[int] = 3
    size: int = 10
    """Rows and columns,

    both alike."""
    rate: float = 2


class Echo(Narrow):
    size = 100
    label: str = "x"
    check_all: bool = False

    def step(self) -> None: ...


DEFAULTS = {"calls": 4, "size": 100, "rate": 2.0, "label": "x", "check_all": False}


def test_the_options_are_the_annotated_attributes_of_the_class_and_its_bases() -> None:
    options, problems = options_of(Echo)
    assert problems == []
    assert options == {
        "calls": Option("calls", int, 4, "Calls in flight."),
        "size": Option("size", int, 100, "Rows and columns,\n\nboth alike."),
        "rate": Option("rate", float, 2.0, ""),
        "label": Option("label", str, "x", ""),
        "check_all": Option("check_all", bool, False, ""),
    }
    assert type(options["rate"].default) is float


class Limited:
    calls: Annotated[int, Field(ge=1)] = 4
    rate: Annotated[float, Field(gt=0, le=1)] = 1
    device: Literal["cpu", "cuda"] = "cpu"
    only: Literal["this"] = "this"
    written: "Annotated[int, Field(ge=2)]" = 2


def test_limits_are_named_and_kept() -> None:
    options, problems = options_of(Limited)
    assert problems == []
    assert {name: (option.kind, option.limits) for name, option in options.items()} == {
        "calls": (int, "at least 1"),
        "rate": (float, "above 0 and at most 1"),
        "device": (str, "cpu or cuda"),
        "only": (str, "this"),
        "written": (int, "at least 2"),
    }
    given = {"calls": "1", "rate": "0.5", "device": "cuda"}
    values = {"calls": 1, "rate": 0.5, "device": "cuda", "only": "this", "written": 2}
    assert read_options(Limited, given) == (values, [])
    given = {"calls": "0", "rate": 2, "device": "tpu", "only": 3}  # type: ignore[dict-item]
    assert read_options(Limited, given)[1] == [
        "option calls must be at least 1, got '0'",
        "option rate must be above 0 and at most 1, got 2",
        "option device must be cpu or cuda, got 'tpu'",
        "option only must be str, got 3",
    ]


def a_class(annotation: object = None, **attributes: object) -> type:
    """Made without source: its options have no summaries."""
    if annotation is not None:
        attributes["__annotations__"] = {"calls": annotation}
    return type("Made", (), attributes)


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        (a_class(calls=4, _hidden=5), "calls has no type; write `calls: int = 4`"),
        (a_class(int), "calls has no default"),
        (a_class(list[int], calls=[]), "calls must be bool, int, float, str or a Literal of str"),
        (a_class(int, calls="four"), "calls is int, got 'four'"),
        (a_class(int, calls=True), "calls is int, got True"),
        (a_class("Tensor", calls=4), "calls has a type that is not there: Tensor"),
        (a_class(Annotated[int, Field(ge=1)], calls=0), "calls must be at least 1, got 0"),
    ],
)
def test_a_mistake_in_the_class_is_reported(workload: type, problem: str) -> None:
    assert options_of(workload)[1] == [f"Made.{problem}"]


def test_text_is_converted_to_the_type_of_the_option() -> None:
    assert read_options(Echo, {}) == (DEFAULTS, [])
    given = {"calls": "8", "rate": "0.5", "label": "5", "check_all": "true"}
    values = {"calls": 8, "size": 100, "rate": 0.5, "label": "5", "check_all": True}
    assert read_options(Echo, given) == (values, [])


ALL = (
    "The options are: calls (int, 4), size (int, 100), rate (float, 2.0), "
    "label (str, 'x'), check_all (bool, False)"
)


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("calls", "many", "option calls must be int, got 'many'"),
        ("rate", "fast", "option rate must be float, got 'fast'"),
        ("check_all", "maybe", "option check_all must be bool, got 'maybe'"),
        ("label", 5, "option label must be str, got 5"),
        ("call", 1, f"unknown option 'call'; did you mean calls? {ALL}"),
        ("zzz", 1, f"unknown option 'zzz'. {ALL}"),
        *(
            (name, raw, f"option {name} must be a number of at most 64 bits, got {raw!r}")
            for name, raw in [("size", -(2**70)), ("size", "9" * 30), ("rate", "nan")]
        ),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_and_the_default_stands(
    name: str, raw: object, problem: str
) -> None:
    assert read_options(Echo, {name: raw}) == (DEFAULTS, [problem])


def test_a_workload_may_have_no_options() -> None:
    assert read_options(object, {"calls": 1})[1] == ["unknown option 'calls'. It has no options."]
