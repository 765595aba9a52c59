"""A fuzzer that cannot fail is none: each kind finds a fault that was planted."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.fuzz.fuzzing import fuzz, survives
from tests.fuzz.mutations import as_json, mangled, mutated
from tests.plan.specs import workload_spec
from tests.trace.golden_files import NATIVE
from tuner.errors import UsageError
from tuner.plan import space
from tuner.plan.draft import draft_plan
from tuner.trace.files import native_reader
from tuner.trace.files.native_reader import trace_of

DOCUMENT = {"name": "a", "sizes": [1, 2, 3], "inner": {"deep": {"value": 1.5}}}


def test_what_is_refused_in_words_survives() -> None:
    def refuse() -> None:
        raise UsageError("the value \x1b is wrong")

    assert survives(refuse) is None
    assert survives(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        survives(lambda: 1 // 0)


@pytest.mark.parametrize(
    "is_fault",
    [
        lambda document: document["inner"]["deep"]["value"] == float("inf"),
        lambda document: "\x1b" in document["name"],
        lambda document: len(document["sizes"]) > 3,
        lambda document: document["inner"]["deep"]["value"] > 1e200,
        lambda document: "sizes" not in document,
    ],
)
def test_mutations_of_documents_reach_every_place(is_fault: Any) -> None:
    def check(document: Any) -> None:
        try:
            found = is_fault(document)
        except (KeyError, TypeError, IndexError):
            return
        assert not found

    with pytest.raises(AssertionError):
        fuzz(mutated([DOCUMENT]), check, 3000)


def test_mangled_bytes_are_often_still_json() -> None:
    read = []

    def check(text: bytes) -> None:
        try:
            read.append(json.loads(text))
        except ValueError:
            return

    fuzz(mangled([as_json(DOCUMENT)], [b"null", b"[]"]), check, 300)
    assert len(read) >= 5
    assert any(each != DOCUMENT for each in read)


def test_a_fault_in_a_parser_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = space._read_values

    def faulty(knob: Any, raw: Any) -> Any:
        values: Any = raw
        return values.items() if isinstance(raw, float) else plain(knob, raw)

    monkeypatch.setattr(space, "_read_values", faulty)
    seeds = [{"workload": "udf", "space": {"num_worker_threads": [1, 2]}}]
    with pytest.raises(AttributeError):
        fuzz(
            mutated(seeds),
            lambda document: (
                survives(lambda: draft_plan(document).finish(workload_spec()))
                if isinstance(document, dict)
                else None
            ),
            3000,
        )


def test_a_fault_in_a_trace_reader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(times_us: Any, what: str) -> Any:
        return np.array([round(each * 1e3) for each in times_us], dtype=np.int64)

    monkeypatch.setattr(native_reader, "_times_ns", faulty)
    seeds = [json.loads(NATIVE.read_text())]
    with pytest.raises(TypeError):
        fuzz(
            st.builds(as_json, mutated(seeds)),
            lambda text: survives(lambda: trace_of(text, "it")),
            3000,
        )
