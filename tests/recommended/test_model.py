"""The model of recommended.json and its schema say the same."""

import json
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from testing.specs import workload_spec
from tests.recommended.documents import EACH, OF_EVERY_KNOB, document
from tuner.errors import UsageError
from tuner.recommended.model import (
    Recommendation,
    as_json,
    as_toml,
    json_schema,
    read_recommendation,
)

SCHEMA = jsonschema.Draft202012Validator(json_schema())


def test_the_schema_is_one() -> None:
    SCHEMA.check_schema(json_schema())


@pytest.mark.parametrize("each", EACH)
def test_what_is_written_follows_the_schema_and_is_read_back(
    each: Recommendation, tmp_path: Path
) -> None:
    SCHEMA.validate(json.loads(as_json(each)))
    for write, name in ((as_json, "recommended.json"), (as_toml, "recommended.toml")):
        path = tmp_path / name
        path.write_text(write(each))
        assert read_recommendation(path) == each


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("config", None),
        ("config.*.num_worker_threads", "8"),
        ("config.*.num_worker_thread", 8),
        ("config.*.transports", ["uv", "uv"]),
        ("config.*.rpc_timeout", 0),
        ("config.*.devices", ["0"]),
        ("config.*.device_maps", {"worker1": {"0": "1"}}),
        ("config.*.cpu_binding", "equals"),
        ("config.*.switch_interval", 0),
    ],
)
def test_what_the_schema_refuses_the_model_refuses(place: str, value: Any) -> None:
    damaged = document(OF_EVERY_KNOB, workload_spec("agent", "observer"))
    *outer, key = place.split(".")
    reduce(getitem, outer, damaged)[key] = value
    assert not SCHEMA.is_valid(damaged)
    with pytest.raises(ValueError, match="Recommendation"):
        Recommendation.model_validate_json(json.dumps(damaged), strict=True)


def refusal(path: Path, content: str | bytes | dict[str, Any]) -> str:
    text = json.dumps(content) if isinstance(content, dict) else content
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError) as caught:
        read_recommendation(path)
    assert "pydantic" not in str(caught.value)
    assert "Input should" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("r.json", b"\xff\xfe{}", "not valid JSON: "),
        ("r.json", "[" * 100_000, "not valid JSON: "),
        ("r.json", "[1, 2]", "it must hold an object, got [1, 2]"),
        ("r.json", "{}", "format is missing"),
        ("r.json", '{"format": true}', "format must be 3, got True"),
        ("r.toml", b"\xff", "not valid TOML: "),
        ("r.toml", "format = 2.0", "format must be 3, got 2.0"),
        ("r.toml", f"format = {'[' * 20_000}", "not valid TOML: "),
    ],
)
def test_what_is_no_recommendation_is_damaged(
    tmp_path: Path, name: str, content: str | bytes, reason: str
) -> None:
    path = tmp_path / name
    assert refusal(path, content).startswith(f"{path} is damaged: {reason}")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("verdict", "best", "verdict must be 'better', 'tie', 'keep-baseline' or 'undecided', "
         "got 'best'"),
        ("colour", "blue", "unknown key colour"),
        ("config", {"*": {"num_worker_threads": "8"}},
         "config: *.num_worker_threads must be 8, got '8'"),
        ("config", {"agnet": {"num_worker_threads": 8}},
         "config: unknown role 'agnet'; did you mean agent?"),
        ("config", 8, "config must be an object by role, got 8"),
        ("challenger", {"config": {"server": {"rpc_timeout": 4}}},
         "challenger.config: unknown role 'server'; did you mean observer?"),
        ("ranks", [{"name": "a", "role": "agent"}, *({"name": "b", "role": "observer"},) * 2],
         "ranks: 'b' is named twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_in_a_sentence(
    tmp_path: Path, key: str, value: Any, reason: str
) -> None:
    path = tmp_path / "recommended.json"
    assert refusal(path, {**document(), key: value}) == f"{path} is damaged: {reason}"


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    spoilt = {**document(), "trial": "1", "objective": "x" * 200}
    del spoilt["baseline"]
    message = refusal(tmp_path / "recommended.json", spoilt)
    assert "is damaged: 3 problems" in message
    assert "trial must be a valid integer, got '1'" in message
    assert "baseline is missing" in message
    assert max(map(len, message.splitlines())) < 250


def test_a_file_of_another_version_is_refused_with_what_helps(tmp_path: Path) -> None:
    path, study = tmp_path / "r.json", {"study": "my study", "environment": {"workload": "udf"}}
    for version, age, cure in (
        ({"format": 4}, "a newer", "upgrade rpc-tuner"),
        ({"format": 1, "study": 3}, "an older", "search again"),
        ({"format": 2, **study}, "an older", "search again: rpc-tuner search --workload udf "
         "--study 'my study' --overwrite"),
    ):  # fmt: skip
        reads = f"(format {version['format']}; this version reads format 3)"
        assert refusal(path, version) == f"{path} was written by {age} rpc-tuner {reads}: {cure}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*absent.json: No such file or directory"):
        read_recommendation(tmp_path / "absent.json")
    with pytest.raises(UsageError, match=r"cannot read .*: Is a directory; a study's file is "):
        read_recommendation(tmp_path)


def test_a_number_beyond_64_bits_is_neither_read_nor_written(tmp_path: Path) -> None:
    beyond = refusal(tmp_path / "recommended.json", {**document(), "trial": 10**30})
    assert beyond.endswith("is damaged: integer exceeds 64-bit range")
    with pytest.raises(UsageError, match="cannot be written: integer exceeds 64-bit"):
        as_json(EACH[0].model_copy(update={"trial": 10**30}))
