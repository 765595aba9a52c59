"""Trace files of three formats: read, analysed, printed, drawn, or refused with the reason."""

import gzip
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from testing.golden_files import CALLBACK_CALLS, KINETO, KINETO_1_9, LEGACY, NATIVE
from tests.fuzz.fuzzing import as_json, fuzz, mangled, mutated, survives
from tests.present.screen import Screen
from tuner.json_text import visible_json
from tuner.present.analysis import Analysis
from tuner.present.figures import write_timeline_figure
from tuner.present.trace_summary import Shown, print_trace
from tuner.text import printable
from tuner.trace.files import reader
from tuner.trace.files.reader import read_traces
from tuner.trace.model.trace import Trace

pytestmark = pytest.mark.thorough


FORMATS = {"native": (NATIVE, CALLBACK_CALLS), "kineto": (*KINETO, KINETO_1_9), "legacy": (LEGACY,)}
SMALL = 150  # bytes of a part: those files have several events
TOKENS = (
    b"Infinity", b"\\", b'"1704161511420306.491"', b"1704161511420306.491", b"null", b"{}", b"[",
    b"]", b"-1", b"1e300", b"1e-9", b'""', b'"\\ud800"', b"}", b"NaN",
)  # fmt: skip


def analysed(trace: Trace) -> None:
    """All that `analyze` does with a trace, but for the picture."""
    analysis = Analysis.of(trace, forecasts_unasked=True)
    made = visible_json(analysis.to_json())
    json.loads(made, parse_constant=pytest.fail)
    screen = Screen(width=100)
    print_trace(analysis, screen.console, Shown(whole=True, row_limit=5))
    assert printable(screen.text) == screen.text


def seeds(paths: tuple[Path, ...]) -> list[Any]:
    return [json.loads(path.read_text()) for path in paths]


def read(path: Path, content: bytes) -> tuple[Trace | None, Trace | None]:
    """The trace as it is read at once, and in parts."""
    path.write_bytes(content)
    trace = survives(lambda: read_traces([path]))
    if trace is not None:
        survives(lambda: analysed(trace))
    with patch.object(reader, "PART_BYTES", SMALL):
        return trace, survives(lambda: read_traces([path]))


@pytest.mark.parametrize("paths", FORMATS.values(), ids=FORMATS)
def test_documents_of_each_format(paths: tuple[Path, ...], tmp_path: Path) -> None:
    def check(content: bytes) -> None:
        trace, in_parts = read(tmp_path / "trace.json", content)
        assert (in_parts is None) == (trace is None)
        if trace is not None and in_parts is not None:
            assert trace.losses == in_parts.losses
            assert trace.calls.equals(in_parts.calls)
            assert trace.operators.equals(in_parts.operators)
            assert trace.callbacks.equals(in_parts.callbacks)

    fuzz(st.builds(as_json, mutated(seeds(paths))), check, 40)


PACKED = [gzip.compress(path.read_bytes()) for path in (NATIVE, LEGACY)]
TEXTS = {name: [path.read_bytes() for path in paths] for name, paths in FORMATS.items()}


@pytest.mark.parametrize(
    "texts",
    [*(mangled(each, TOKENS) for each in TEXTS.values()), st.binary() | mangled(PACKED)],
    ids=[*TEXTS, "any"],
)
def test_bytes(texts: SearchStrategy[bytes], tmp_path: Path) -> None:
    fuzz(texts, lambda text: read(tmp_path / "trace.json", text), 40)


JOINED = [mutated(seeds((path,))) for path in KINETO]
DRAWN = [mutated([seed for paths in FORMATS.values() for seed in seeds(paths)])]


@pytest.mark.parametrize(
    ("documents", "use", "number"),
    [
        (JOINED, lambda trace, file: analysed(trace), 25),
        (DRAWN, lambda trace, file: write_timeline_figure([("\x1b it", trace)], file), 12),
    ],
)
def test_files_that_are_joined_or_drawn(
    documents: list[SearchStrategy[Any]], use: Any, number: int, tmp_path: Path
) -> None:
    def check(found: tuple[Any, ...]) -> None:
        files = [tmp_path / f"rank{rank}.json" for rank in range(len(found))]
        for file, document in zip(files, found, strict=True):
            file.write_bytes(as_json(document))
        trace = survives(lambda: read_traces(files))
        if trace is not None:
            survives(lambda: use(trace, tmp_path / "timeline.svg"))

    fuzz(st.tuples(*documents), check, number)
