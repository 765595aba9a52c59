"""Recommendations as JSON and TOML: written, read, and refused with the reason."""

import json
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from tuner.errors import UsageError
from tuner.plan.knobs import DEFAULT_WORD, KNOBS
from tuner.recommended.model import FORMAT, Recommendation


def as_json(recommendation: Recommendation) -> str:
    """The content of `recommended.json`."""
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
    document = _parsed(path)
    _check_format(document, path)
    try:
        # As JSON, where dates and tuples are strings and lists; strictly, so that "2" is no number.
        text = json.dumps(document, default=str)
        return Recommendation.model_validate_json(text, strict=True)
    except ValidationError as error:
        problems = [_sentence(detail) for detail in error.errors()]
        raise UsageError.about(f"{path} is damaged", problems) from None


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if path.suffix == ".py":
        raise UsageError(
            f"{path} is a Python file, and a configuration is read from JSON or TOML; if it is an "
            "export to Python, import it, or export with --format json"
        )
    is_toml = path.suffix.lower() == ".toml"
    try:
        document = tomllib.loads(content.decode()) if is_toml else orjson.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is damaged: not valid {'TOML' if is_toml else 'JSON'}: {error}"
        ) from None
    if not isinstance(document, Mapping):
        raise UsageError(f"{path} is damaged: it must hold an object, got {_short(document)}")
    return document


def _check_format(document: Mapping[str, Any], path: Path) -> None:
    found = document.get("format")
    if not isinstance(found, int) or isinstance(found, bool):
        wrong = "is missing" if found is None else f"must be {FORMAT}, got {_short(found)}"
        raise UsageError(f"{path} is damaged: format {wrong}")
    if found > FORMAT:
        raise UsageError(
            f"{path} was written by a newer rpc-tuner (format {found}; this version reads format "
            f"{FORMAT}): upgrade rpc-tuner"
        )
    if found < FORMAT:
        raise UsageError(
            f"{path} was written by an older rpc-tuner (format {found}; this version reads format "
            f"{FORMAT}): search again{_search_command(document)}"
        )


def _search_command(document: Mapping[str, Any]) -> str:
    """The command of the search that an older document rests on; empty if it does not say."""
    study, environment = document.get("study"), document.get("environment")
    workload = environment.get("workload") if isinstance(environment, Mapping) else None
    if not isinstance(study, str) or not isinstance(workload, str):
        return ""
    arguments = ["--workload", workload, "--study", study, "--overwrite"]
    return f": {shlex.join(['python', '-m', 'tuner.search', *arguments])}"


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
    return f"{place} {needed}, got {_short(detail['input'])}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
