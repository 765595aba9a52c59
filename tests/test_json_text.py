import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.json_text import json_of, visible_json
from tuner.text import printable

TEXT = st.text(st.characters())
DOCUMENT = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(DOCUMENT)
def test_any_text_is_valid_json_that_a_terminal_shows(document: Any) -> None:
    made = visible_json(document)
    shown = made.decode()
    assert printable(shown) == shown
    assert json.loads(made) == json.loads(json_of(document))


def test_what_would_act_is_escaped_for_a_terminal_alone() -> None:
    made = {
        "\udc80": rb'"\\udc80"',
        "\x1b\x9b\x7f": rb'"\u001b\u009b\u007f"',
        "\u202e\U000e0041é": r'"\u202e\udb40\udc41é"'.encode(),
    }
    assert {text: visible_json(text) for text in made} == made
    assert json_of({"a": "\u202eé"}) == '{"a":"\u202eé"}'.encode()


def test_what_is_no_json_is_still_refused() -> None:
    with pytest.raises(TypeError):
        json_of({"a": object()})
