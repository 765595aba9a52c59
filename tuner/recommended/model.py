"""The content of `recommended.json`, and how it is written and read as JSON and TOML."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import msgspec
from pydantic import (
    AwareDatetime,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from typing_extensions import TypeAliasType

from tuner.decide.verdict import VerdictKind
from tuner.errors import UsageError
from tuner.plan.config import Config
from tuner.plan.frozen_model import FrozenModel
from tuner.plan.knobs import (
    DEFAULT_WORD,
    KNOBS,
    ChoiceKnob,
    DeviceMapsKnob,
    DevicesKnob,
    DurationKnob,
    IntegerKnob,
    Knob,
    NamesKnob,
    Value,
)
from tuner.plan.launching import Launching
from tuner.plan.measuring import ObjectiveName
from tuner.plan.program_request import ProgramRequest
from tuner.plan.workload_spec import RankSpec, distinct_roles
from tuner.recommended.document import (
    FORMAT,
    check_roles,
    process_values_of,
    read_document,
    short,
    strict_config,
    values_of_role,
)
from tuner.text import LONGEST_S
from tuner.world.environment import Environment


def _knob_schema(knob: Knob) -> dict[str, Any]:
    match knob:
        case IntegerKnob():
            value: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": knob.most}
        case NamesKnob():
            value = _list_schema({"enum": list(knob.known)})
        case DevicesKnob():
            value = _list_schema({"type": "string", "pattern": "^cuda:[0-9]+$"})
        case DeviceMapsKnob():
            index = {"type": "integer", "minimum": 0}
            pairs = {"type": "object", "minProperties": 1, "additionalProperties": False,
                     "patternProperties": {"^[0-9]+$": index}}  # fmt: skip
            value = {"type": "object", "minProperties": 1, "additionalProperties": pairs}
        case ChoiceKnob():
            value = {"enum": list(knob.known)}
        case DurationKnob():
            value = {"type": "number", "minimum": knob.least_s, "maximum": knob.most_s}
        case _:
            value = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_S}
    if knob.default is None:
        value = {"anyOf": [value, {"enum": [None, DEFAULT_WORD]}]}
    return {"description": knob.summary, **value}


def _list_schema(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1, "uniqueItems": True}


CONFIG_SCHEMA: dict[str, Any] = {
    "description": 'Values by role, then by knob; "*" is all roles, and the narrower entry wins.',
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {knob.name: _knob_schema(knob) for knob in KNOBS.values()},
        "additionalProperties": False,
    },
}

# A named type, so that the schema says once what a configuration is.
ConfigJson = TypeAliasType(
    "ConfigJson",
    Annotated[
        Config,
        PlainValidator(lambda raw: raw if isinstance(raw, Config) else strict_config(raw)),
        PlainSerializer(Config.to_json, return_type=dict[str, Any]),
        WithJsonSchema(CONFIG_SCHEMA),
    ],
)


class _Part(FrozenModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class Speedup(_Part):
    """How many times as fast as the baseline; null where too little was measured to tell."""

    estimate: FiniteFloat | None = None
    ci_low: FiniteFloat | None = None
    ci_high: FiniteFloat | None = None


class Challenger(_Part):
    """The configuration that met the baseline on fresh worlds."""

    config: ConfigJson | None = None
    speedup: Speedup = Speedup()


class Measured(_Part):
    """The objective of the configuration; null where no world counts."""

    value: FiniteFloat | None = None
    ci_low: FiniteFloat | None = None
    ci_high: FiniteFloat | None = None
    unit: str
    worlds: int = Field(ge=0)


class How(_Part):
    """How it was measured, as far as that can differ from search to search."""

    min_time_s: FiniteFloat = Field(gt=0)
    """How long the timed steps of a world last at least."""
    deadline_s: FiniteFloat = Field(gt=0)
    epsilon: float = Field(gt=0, lt=1)
    """The smallest difference that matters."""
    require: tuple[str, ...] = ()
    """The limits that a configuration had to keep, as `--require` takes them."""
    launching: Launching = Launching()
    """What launched the worlds, and where their ranks were."""


class MeasuredIn(Environment):
    """The machine, the software, and the workload or program that was measured."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    workload: str | None = None
    """What `--workload` names; null for a program."""
    options: dict[str, bool | int | FiniteFloat | str] = Field(default_factory=dict)
    """Every option of the workload, defaults included."""
    program: ProgramRequest | None = None
    """The program, and how it was run; null for a workload."""
    own: ConfigJson | None = None
    """What the program itself gives each role, which held where the configuration says nothing."""
    intra_op_threads: dict[str, Annotated[int, Field(ge=1, le=4096)]]
    """`torch.set_num_threads` of each role, as measured."""
    date: AwareDatetime
    """When the study's last session ended."""

    @model_validator(mode="after")
    def _is_of_one_thing(self) -> Self:
        if (self.workload is None) == (self.program is None):
            raise ValueError("it must name a workload or a program")
        return self

    @property
    def what(self) -> tuple[str, str]:
        """`workload` or `program`, and which."""
        if self.program is not None:
            return "program", self.program.reference
        options = " ".join(f"{name}={value}" for name, value in self.options.items())
        return "workload", f"{self.workload} {options}".strip()


class Recommendation(_Part):
    """A configuration that rpc-tuner recommends for `torch.distributed.rpc`, and its evidence."""

    format: Literal[3]
    study: str
    trial: int = Field(ge=0)
    """The number of the configuration's trial in the study, as in `trials.csv`."""
    config: ConfigJson
    verdict: VerdictKind | None = None
    """Null for a configuration that was chosen by hand."""
    speedup: Speedup = Speedup()
    measured: Measured
    challenger: Challenger = Challenger()
    objective: ObjectiveName
    confidence: float = Field(gt=0, lt=1)
    """Of every interval."""
    how: How
    baseline: ConfigJson
    ranks: tuple[RankSpec, ...] = Field(min_length=1)
    """The processes, by rank."""
    environment: MeasuredIn

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in order of first rank, each once."""
        return distinct_roles(self.ranks)

    def values_of(self, role: str) -> dict[str, Value]:
        """The values of the knobs of a role; see `values_of_role`."""
        where = self.environment
        return values_of_role(role, self.config, where.own, where.intra_op_threads)

    @model_validator(mode="after")
    def _roles_are_known(self) -> Self:
        check_roles(self.baseline, "baseline", self.roles)
        if self.challenger.config is not None:
            check_roles(self.challenger.config, "challenger.config", self.roles)
        names = [rank.name for rank in self.ranks]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"ranks: {', '.join(map(repr, twice))} is named twice")
        return self


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `recommended.json`, which the documentation site has."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:rpc-tuner:recommended:{FORMAT}",
        **Recommendation.model_json_schema(),
        "title": "recommended.json of rpc-tuner",
    }


def as_json(recommendation: Recommendation) -> str:
    """The content of `recommended.json`. UsageError if it holds what JSON cannot."""
    try:
        return _json_of(recommendation)
    except ValueError as error:
        raise UsageError(f"the recommendation cannot be written: {error}") from None


def _json_of(recommendation: Recommendation) -> str:
    document = recommendation.model_dump(mode="json")
    if _is_beyond_64_bits(document):
        raise ValueError("integer exceeds 64-bit range")
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _is_beyond_64_bits(value: object) -> bool:
    """Whether it holds a number that other programs do not read."""
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list):
        return any(map(_is_beyond_64_bits, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def as_toml(recommendation: Recommendation) -> str:
    """The same as TOML, which has no null: unknown values are left out."""
    # Late: a program that loads a recommendation does not write TOML.
    import tomli_w

    return tomli_w.dumps(_without_null(recommendation.model_dump(mode="json")))


def _without_null(value: object) -> Any:
    if isinstance(value, list):
        return [_without_null(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        # A knob at PyTorch's default is not the same as a knob that is not named.
        key: DEFAULT_WORD if inner is None else _without_null(inner)
        for key, inner in value.items()
        if inner is not None or key in KNOBS
    }


def read_recommendation(path: Path) -> Recommendation:
    """What a file of a recommendation holds, of JSON or TOML; UsageError if it is damaged."""
    document = read_document(path)
    try:
        process_values_of(document)  # what a program would refuse is damaged here, too
        # As JSON, where dates and tuples are strings and lists; strictly, so that "2" is no number.
        text = json.dumps(document, default=str)
        found = Recommendation.model_validate_json(text, strict=True)
        _json_of(found)  # what cannot be written again is none of ours
    except ValidationError as error:
        raise UsageError.about(f"{path} is damaged", [*map(_sentence, error.errors())]) from None
    except ValueError as error:
        raise UsageError(f"{path} is damaged: {error}") from None
    return found


def _sentence(detail: Any) -> str:
    """One pydantic error as `speedup.estimate must be a valid number, got 'fast'`."""
    place = ".".join(str(part) for part in detail["loc"])
    kind, message = detail["type"], str(detail["msg"])
    if kind == "missing":
        return f"{place} is missing"
    if kind == "extra_forbidden":
        return f"unknown key {place}"
    if kind == "value_error":
        cause = message.removeprefix("Value error, ")
        return cause if cause.startswith(place) else f"{place}: {cause}"
    needed = message.replace("Input should", "must", 1)
    return f"{place} {needed[0].lower()}{needed[1:]}, got {short(detail['input'])}"
