"""`recommended.json` and what is exported of it: whatever it holds, it is data."""

import ast
import json
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from testing.specs import threads
from tests.fuzz.fuzzing import as_json, fuzz, mangled, mutated, survives
from tests.recommended.documents import document, recommendation
from tuner.recommended.model import Recommendation, as_toml, read_recommendation
from tuner.recommended.model import as_json as written_json
from tuner.recommended.python_module import as_python
from tuner.recommended.recheck import recheck_command

pytestmark = pytest.mark.thorough


SEEDS = [document(), json.loads(recommendation(threads(4)).model_dump_json())]
SHAPE = [type(node) for node in ast.parse(as_python(recommendation(threads(4)), "It.")).body]


def exported(found: Recommendation, path: Path) -> None:
    """It can be written and read again, and no text of it becomes code."""
    path.write_text(written_json(found))
    assert read_recommendation(path) == found
    other = path.with_suffix(".toml")
    other.write_text(as_toml(found))
    assert read_recommendation(other) == found
    module = ast.parse(as_python(found, found.study))
    assert [type(node) for node in module.body] == SHAPE
    recheck_command(found)
    for role in found.roles:
        found.values_of(role)


JSON_TOKENS = (b"null", b"1e300", b"-1", b'"\\u001b"', b"{}", b"[", b'"\\n"')
TOML_TOKENS = (b"inf", b"nan", b"1979-05-27", b'"""', b"[a]", b"= 1")


JSON = st.builds(as_json, mutated(SEEDS)) | mangled([as_json(each) for each in SEEDS], JSON_TOKENS)
TOML = mangled([as_toml(recommendation(threads(4))).encode()], TOML_TOKENS)


@pytest.mark.parametrize(("suffix", "texts", "number"), [("json", JSON, 250), ("toml", TOML, 100)])
def test_files(suffix: str, texts: SearchStrategy[bytes], number: int, tmp_path: Path) -> None:
    path, again = tmp_path / f"recommended.{suffix}", tmp_path / "again.json"

    def check(text: bytes) -> None:
        path.write_bytes(text)
        found = survives(lambda: read_recommendation(path))
        if found is not None:
            exported(found, again)

    fuzz(texts, check, number)


@pytest.mark.parametrize("place", ["cpu_model", "kernel", "torch", "python"])
def test_text_of_a_recommendation_is_no_code(place: str) -> None:
    for text in ("a\nimport os", "a\rimport os", '"""', "\\", "'", "\x0c", "\x85b", "\u2028c"):
        changed = {**SEEDS[1], "environment": {**SEEDS[1]["environment"], place: text}}
        found = Recommendation.model_validate_json(json.dumps({**changed, "study": text}))
        module = ast.parse(as_python(found, text))
        assert [type(node) for node in module.body] == SHAPE
