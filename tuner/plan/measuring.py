"""How a study measures and decides: everything but what is tuned, and the search space."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from tuner.plan.frozen_model import FrozenModel
from tuner.plan.keys import DEFAULTS, OF_PROGRAMS, SAMPLERS, SamplerName, keys_of
from tuner.plan.objectives import OBJECTIVES, Limit
from tuner.text import did_you_mean, duration, parse_duration_s, parse_fraction

AUTO = "auto"
AUTO_LIMIT_S = 600.0  # the most that `budget = "auto"` takes, unless it names a limit
LEAST_START_S = 10.0  # a start may take its time, however short a budget is
WISHED_BLOCKS = 8  # fewer estimate a gain poorly; from here on each can have the baseline twice


def _confidence(raw: object) -> float:
    confidence = parse_fraction(raw)
    if confidence < 0.5:
        raise ValueError(f"must be at least 50%, got {raw} (95% is written 95% or 0.95)")
    return confidence


def _one_of(what: str, known: Sequence[str]) -> Callable[[object], object]:
    def checked(name: object) -> object:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise ValueError(f"unknown {what} {str(name)[:60]!r}{hint}")
        return name

    return checked


ObjectiveName = Annotated[
    str,
    AfterValidator(_one_of("objective", tuple(OBJECTIVES))),
    WithJsonSchema({"enum": [*OBJECTIVES], "type": "string"}),
]
Duration = Annotated[float, BeforeValidator(parse_duration_s)]
Fraction = Annotated[float, BeforeValidator(parse_fraction)]
Sampler = Annotated[SamplerName, BeforeValidator(_one_of("sampler", SAMPLERS))]
ReadLimit = Annotated[
    Limit,
    BeforeValidator(Limit.read),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]


class Measuring(FrozenModel):
    """How a study measures and decides; the aliases are the keys of a plan file."""

    model_config = ConfigDict(validate_by_name=True, validate_default=True)

    objective_name: ObjectiveName = Field(DEFAULTS["objective"], alias="objective")
    second_objective_name: ObjectiveName | None = None  # of `objective = "a,b"`; the first decides
    # What a configuration must keep to be recommended.
    require: Annotated[
        tuple[ReadLimit, ...], BeforeValidator(lambda raw: (raw,) if isinstance(raw, str) else raw)
    ] = ()
    budget_s: Duration = Field(DEFAULTS["budget"], alias="budget")
    until_clear: bool = False  # `budget = "auto"`: it is a limit that need not be spent
    max_blocks: int | None = Field(None, ge=1, lt=2**31)
    exhaustive: bool = False  # one race of all, to the end of the budget
    epsilon: Fraction = DEFAULTS["epsilon"]
    confidence: Annotated[float, BeforeValidator(_confidence)] = DEFAULTS["confidence"]
    # The steps of a world last this at least.
    min_time_s: Duration = Field(DEFAULTS["min_time"], alias="min_time")
    # A longer world is ended, as a failure.
    deadline_s: Duration = Field(DEFAULTS["deadline"], alias="deadline")
    # Who proposes where the grid is larger than the budget can measure; `grid`: measure it all.
    sampler: Sampler = DEFAULTS["sampler"]
    seed: int = Field(DEFAULTS["seed"], ge=0, lt=2**32)

    @property
    def budget(self) -> str:
        """The budget as a plan file has it: `60s`, `auto` or `auto:20m`."""
        if not self.until_clear:
            return duration(self.budget_s)
        return AUTO if self.budget_s == AUTO_LIMIT_S else f"{AUTO}:{duration(self.budget_s)}"

    @property
    def longest_start_s(self) -> float:
        """How long it may take to find out what there is to know of what is tuned."""
        return max(LEAST_START_S, self.budget_s)

    @property
    def limit(self) -> str:
        """The budget in words: `1m`, or `at most 10m`."""
        return f"{'at most ' * self.until_clear}{duration(self.budget_s)}"

    def keys(self) -> dict[str, Any]:
        """The keys of a plan that ask for this: the inverse of `read_measuring`."""
        names = filter(None, (self.objective_name, self.second_objective_name))
        given = self.model_dump(by_alias=True, exclude={"second_objective_name", "until_clear"})
        return {
            "require": list(given.pop("require")),
            **given,
            "objective": ",".join(names),
            "budget": f"{AUTO}:{self.budget_s!r}" if self.until_clear else self.budget_s,
        }


def usual_measuring(*, of_program: bool = False) -> Measuring:
    """How a workload, or a program, is measured where nothing is named."""
    return read_measuring({}, of_program=of_program)[0]


def read_measuring(
    mapping: Mapping[str, Any], *, of_program: bool = False
) -> tuple[Measuring, list[str]]:
    """How a plan's mapping says to measure, and every mistake of its keys."""
    mapping = {**OF_PROGRAMS, **mapping} if of_program else mapping
    given = {key: mapping[key] for key in keys_of("measuring") if mapping.get(key) is not None}
    names, mistakes = _objective_names(given.get("objective"))
    given |= zip(("objective", "second_objective_name"), names, strict=False)
    auto, colon, limit = str(given.get("budget")).strip().partition(":")
    if auto.lower() == AUTO:
        given |= {"budget": limit if colon else AUTO_LIMIT_S, "until_clear": True}
    if mistakes:
        return Measuring(), mistakes
    try:
        return Measuring.model_validate(given), []
    except ValidationError as error:
        return Measuring(), [sentence_of(detail) for detail in error.errors()]


def _objective_names(raw: object) -> tuple[list[object], list[str]]:
    """One objective or two, from `a`, `a,b` or a list of names; and the mistakes."""
    if raw is None:
        return [], []
    names: list[object] = [*raw] if isinstance(raw, list | tuple) else [raw]
    if isinstance(raw, str):
        names = [name.strip() for name in raw.split(",")]
    if not 1 <= len(names) <= 2:
        return [], [f"objective must be one name or two, got {len(names)}"]
    if len(set(map(str, names))) < len(names):
        return [], [f"objective names {names[0]} twice"]
    return names, []


def sentence_of(detail: Any, name: str | None = None) -> str:
    """One pydantic error as `budget must be a duration such as 60s, got 'soon'`."""
    key = name or ".".join(map(str, detail["loc"]))
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "value_error":
        return message if message.startswith("unknown") else f"{key} {message}"
    return f"{key}: {message[0].lower()}{message[1:]}, got {detail['input']!r}"
