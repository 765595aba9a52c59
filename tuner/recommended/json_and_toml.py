"""Recommendations as JSON and TOML: written, read, and refused with the reason."""

import json
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from tuner.errors import UsageError
from tuner.plan.knobs import DEFAULT_WORD, KNOBS
from tuner.recommended.document import read_document, short
from tuner.recommended.model import Recommendation


def as_json(recommendation: Recommendation) -> str:
    """The content of `recommended.json`.

    Raises:
        UsageError: It holds what JSON cannot, such as a damaged number.
    """
    try:
        return _json_of(recommendation)
    except TypeError as error:
        raise UsageError(f"the recommendation cannot be written: {_reason(error)}") from None


def _json_of(recommendation: Recommendation) -> str:
    document = recommendation.model_dump(mode="json")
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()


def as_toml(recommendation: Recommendation) -> str:
    """The same as TOML, which has no null: unknown values are left out."""
    # Late: a program that loads a recommendation does not write TOML.
    import tomli_w

    document = recommendation.model_dump(mode="json")
    return tomli_w.dumps(_without_null(document))


def _without_null(value: object) -> Any:
    if isinstance(value, list):
        return [_without_null(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        # A knob at PyTorch's default is not the same as a knob that is not named.
        key: DEFAULT_WORD if inner is None else _without_null(inner)
        for key, inner in value.items()
        if inner is not None or key in KNOBS
    }


def read_recommendation(path: Path) -> Recommendation:
    """The content of `recommended.json`, or of an export to JSON or TOML.

    Raises:
        UsageError: The file cannot be read, is damaged, or has another format.
    """
    document = read_document(path)
    try:
        # As JSON, where dates and tuples are strings and lists; strictly, so that "2" is no number.
        text = json.dumps(document, default=str)
        found = Recommendation.model_validate_json(text, strict=True)
        _json_of(found)  # what cannot be written again is none of ours
    except ValidationError as error:
        problems = [_sentence(detail) for detail in error.errors()]
        raise UsageError.about(f"{path} is damaged", problems) from None
    except TypeError as error:
        raise UsageError(f"{path} is damaged: {_reason(error)}") from None
    return found


def _reason(error: TypeError) -> str:
    said = str(error)
    return f"{said[:1].lower()}{said[1:]}"


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
    needed = f"{needed[0].lower()}{needed[1:]}"
    return f"{place} {needed}, got {short(detail['input'])}"
