from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from workloads.options import Option, options_of, read_options


class Base:
    calls: int = 4
    """Calls in flight."""
    _private: str


class Echo(Base):
    version: ClassVar[int] = 3
    size: int = 100
    """Rows and columns,

    both alike."""
    rate: float = 2
    label: str = "x"
    check_all: bool = False

    def step(self) -> None: ...


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


def test_a_whole_default_of_a_float_becomes_one() -> None:
    assert type(options_of(Echo)[0]["rate"].default) is float


def test_a_derived_class_may_change_a_default() -> None:
    class Wide(Echo):
        size = 500

    options, problems = options_of(Wide)
    assert problems == []
    assert options["size"].default == 500
    assert options["size"].summary.startswith("Rows and columns")


def test_a_default_of_a_second_base_may_be_changed() -> None:
    class Other: ...

    class Both(Other, Echo):
        size = 500

    options, problems = options_of(Both)
    assert problems == []
    assert options["size"].default == 500


class Limited:
    calls: Annotated[int, Field(ge=1)] = 4
    rate: Annotated[float, Field(gt=0, le=1)] = 1
    device: Literal["cpu", "cuda"] = "cpu"
    only: Literal["this"] = "this"


def test_limits_are_named_and_kept() -> None:
    options, problems = options_of(Limited)
    assert problems == []
    assert {name: (option.kind, option.limits) for name, option in options.items()} == {
        "calls": (int, "at least 1"),
        "rate": (float, "above 0 and at most 1"),
        "device": (str, "cpu or cuda"),
        "only": (str, "this"),
    }
    assert read_options(Limited, {"calls": "1", "rate": "0.5", "device": "cuda"}) == (
        {"calls": 1, "rate": 0.5, "device": "cuda", "only": "this"},
        [],
    )
    given = {"calls": "0", "rate": 2, "device": "tpu", "only": 3}
    assert read_options(Limited, given)[1] == [
        "option calls must be at least 1, got '0'",
        "option rate must be above 0 and at most 1, got 2",
        "option device must be cpu or cuda, got 'tpu'",
        "option only must be str, got 3",
    ]


def test_limits_written_as_text_are_found() -> None:
    class Postponed:
        calls: "Annotated[int, Field(ge=1)]" = 4

    assert options_of(Postponed)[0]["calls"].limits == "at least 1"


def test_a_default_outside_its_limits_is_a_mistake() -> None:
    class Zero:
        calls: Annotated[int, Field(ge=1)] = 0

    assert options_of(Zero)[1] == ["Zero.calls must be at least 1, got 0"]


class Plain:
    calls = 4
    _hidden = 5


class NoDefault:
    calls: int


class WrongType:
    sizes: list[int] = []  # noqa: RUF012 - the mistake under test


class WrongDefault:
    calls: int = "four"  # type: ignore[assignment]


class BoolForInt:
    calls: int = True


@pytest.mark.parametrize(
    ("workload", "problem"),
    [
        (Plain, "Plain.calls has no type; write `calls: int = 4`"),
        (NoDefault, "NoDefault.calls has no default"),
        (WrongType, "WrongType.sizes must be bool, int, float, str or a Literal of str"),
        (WrongDefault, "WrongDefault.calls is int, got 'four'"),
        (BoolForInt, "BoolForInt.calls is int, got True"),
    ],
)
def test_a_mistake_in_the_class_is_reported(workload: type, problem: str) -> None:
    assert options_of(workload) == ({}, [problem])


def test_a_type_that_only_a_type_checker_can_see_is_reported() -> None:
    hidden = type("Hidden", (), {"__annotations__": {"size": "Tensor"}})
    options, problems = options_of(hidden)
    assert options == {}
    assert len(problems) == 1
    assert "Tensor" in problems[0]


def test_a_private_attribute_may_have_any_type() -> None:
    hidden = type("Hidden", (), {"__annotations__": {"_results": "list[Tensor]"}})
    assert options_of(hidden) == ({}, [])


def test_a_class_without_source_has_options_without_summaries() -> None:
    made = type("Made", (), {"__annotations__": {"calls": int}, "calls": 4})
    assert options_of(made) == ({"calls": Option("calls", int, 4, "")}, [])


def test_every_option_has_a_value() -> None:
    assert read_options(Echo, {}) == (
        {"calls": 4, "size": 100, "rate": 2.0, "label": "x", "check_all": False},
        [],
    )


def test_text_is_converted_to_the_type_of_the_option() -> None:
    given = {"calls": "8", "rate": "0.5", "label": "5", "check_all": "true"}
    values, problems = read_options(Echo, given)
    assert problems == []
    assert values == {"calls": 8, "size": 100, "rate": 0.5, "label": "5", "check_all": True}


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("calls", "many", "option calls must be int, got 'many'"),
        ("calls", "1.5", "option calls must be int, got '1.5'"),
        ("calls", None, "option calls must be int, got None"),
        ("rate", "fast", "option rate must be float, got 'fast'"),
        ("label", 5, "option label must be str, got 5"),
        ("check_all", "maybe", "option check_all must be bool, got 'maybe'"),
    ],
)
def test_a_bad_value_is_refused_and_the_default_stands(
    name: str, raw: object, problem: str
) -> None:
    values, problems = read_options(Echo, {name: raw})
    assert problems == [problem]
    assert values == read_options(Echo, {})[0]


OPTIONS_OF_ECHO = (
    "The options are: calls (int, 4), size (int, 100), rate (float, 2.0), "
    "label (str, 'x'), check_all (bool, False)"
)


def test_an_unknown_option_comes_with_the_nearest_and_all_of_them() -> None:
    _, problems = read_options(Echo, {"call": 1})
    assert problems == [f"unknown option 'call'; did you mean calls? {OPTIONS_OF_ECHO}"]


def test_an_unknown_option_that_is_near_none_is_reported() -> None:
    _, (problem,) = read_options(Echo, {"zzz": 1})
    assert problem == f"unknown option 'zzz'. {OPTIONS_OF_ECHO}"


def test_a_workload_without_options_says_so() -> None:
    _, (problem,) = read_options(object, {"calls": 1})
    assert problem == "unknown option 'calls'. It has no options."


def test_all_mistakes_are_told_together() -> None:
    _, problems = read_options(Echo, {"call": 1, "size": "big", "rate": "fast"})
    assert len(problems) == 3
    assert problems[1:] == [
        "option size must be int, got 'big'",
        "option rate must be float, got 'fast'",
    ]


@pytest.mark.parametrize("raw", [2**70, -(2**70), "9" * 30])
def test_a_whole_number_has_at_most_64_bits(raw: object) -> None:
    _, problems = read_options(Echo, {"size": raw})
    assert problems == [f"option size must be a number of at most 64 bits, got {raw!r}"]


@pytest.mark.parametrize("raw", ["nan", "inf", "-inf", 1e300, float("nan")])
def test_a_number_is_finite_and_not_absurd(raw: object) -> None:
    _, problems = read_options(Echo, {"rate": raw})
    assert problems == [f"option rate must be a number of at most 64 bits, got {raw!r}"]
