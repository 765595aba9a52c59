"""The content of `recommended.json`."""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from typing_extensions import TypeAliasType

from tuner.decide.rules import VerdictKind
from tuner.plan.config import Config
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
from tuner.plan.program_spec import ProgramRequest
from tuner.plan.quantities import MOST_S
from tuner.plan.workload_spec import RankSpec, distinct_roles
from tuner.recommended.document import FORMAT, check_roles, strict_config, values_of_role
from tuner.world.environment import Environment

SCHEMA_ID = f"urn:rpc-tuner:recommended:{FORMAT}"


def _read_config(raw: object) -> Config:
    return raw if isinstance(raw, Config) else strict_config(raw)


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
            value = {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_S}
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
        PlainValidator(_read_config),
        PlainSerializer(Config.to_json, return_type=dict[str, Any]),
        WithJsonSchema(CONFIG_SCHEMA),
    ],
)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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

    @classmethod
    def of(cls, value: float, low: float, high: float, *, unit: str, worlds: int) -> Self:
        """What was measured, numbers that are NaN or infinite being unknown."""
        return cls(value=known(value), ci_low=known(low), ci_high=known(high), unit=unit,
                   worlds=worlds)  # fmt: skip


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
        """What a process of the role gets, by knob, its intra-op threads included."""
        where = self.environment
        return values_of_role(role, self.config, where.own, where.intra_op_threads)

    @model_validator(mode="after")
    def _roles_are_known(self) -> Self:
        if missing := [r for r in self.roles if r not in self.environment.intra_op_threads]:
            raise ValueError(f"environment.intra_op_threads lacks {', '.join(map(repr, missing))}")
        for place, config in (
            ("config", self.config),
            ("baseline", self.baseline),
            ("challenger.config", self.challenger.config),
        ):
            if config is not None:
                check_roles(config, place, self.roles)
        names = [rank.name for rank in self.ranks]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"ranks: {', '.join(map(repr, twice))} is named twice")
        return self


def known(number: float) -> float | None:
    """The number; None where it is NaN or infinite."""
    return number if math.isfinite(number) else None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `recommended.json`; `recommended.schema.json` in this folder holds it."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **Recommendation.model_json_schema(),
        "title": "recommended.json of rpc-tuner",
    }
