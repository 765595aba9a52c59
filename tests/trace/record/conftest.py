"""A world whose rank 0 is this process, and what it records, for the tests of `*_in_a_world.py`."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import msgspec
import pandas as pd
import pytest
import torch.distributed.rpc as rpc

from tests.trace.perfetto_rules import broken_rules
from tests.trace.record import rank_control
from tests.trace.record.rank_control import NAMES, THREADS, everywhere, left_behind, refusal
from tuner.trace.files.native_reader import trace_of
from tuner.trace.record.profile import Profile, profile

ROOT = Path(__file__).parents[3]
OTHER_RANK = "from tests.trace.record.rank_control import run_other_rank; run_other_rank()"


@pytest.fixture(scope="session")
def _ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = tmp_path_factory.mktemp("world") / "store"
    others = [
        subprocess.Popen([sys.executable, "-c", OTHER_RANK, str(rank), str(store)], cwd=ROOT)
        for rank in range(1, len(NAMES))
    ]
    try:
        rank_control.join(0, store)
        yield
        with suppress(RuntimeError):
            rpc.shutdown(graceful=False)
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.fixture
def _world(_ranks: None) -> Iterator[None]:
    """Tracing leaves nothing behind in any rank."""
    yield
    if not any(refusal(rpc.get_worker_info)):  # the last test ends RPC
        assert everywhere(left_behind) == {name: [] for name in NAMES}
    assert left_behind() == []


class SeenCall(SimpleNamespace):
    """A row of `CALL_COLUMNS`, None for what is not known, and the `operators` that it ran."""

    @property
    def latency_ns(self) -> int:
        return int(self.end_ns - self.start_ns)

    @property
    def served_ns(self) -> int:
        return int(self.server_end_ns - self.server_start_ns)


class SeenTrace:
    """A whole file as plain values; calls by start."""

    def __init__(self, path: Path) -> None:
        content = path.read_bytes()
        self.document = msgspec.json.decode(content)
        self.facts: dict[str, Any] = self.document["rpc_tuner"]
        self.frames = trace_of(content, path.name)
        self.operators = [SimpleNamespace(**row) for row in _rows(self.frames.operators)]
        self.calls = [
            SeenCall(**row, operators=[o for o in self.operators if o.call_id == row["call_id"]])
            for row in _rows(self.frames.calls)
        ]

    def named(self, name: str) -> list[SeenCall]:
        """The calls of this name, by start."""
        return [call for call in self.calls if call.name == name]

    def only(self, name: str) -> SeenCall:
        (call,) = self.named(name)
        return call

    def names(self) -> Counter[str]:
        """How many calls there are of each name."""
        return Counter(call.name for call in self.calls)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    values = frame.astype(object)
    return values.where(values.notna(), None).to_dict("records")  # type: ignore[return-value]


class Profiled:
    """A profile, and once its block has ended, its trace."""

    prof: Profile
    trace: SeenTrace


@contextmanager
def profiled(**options: Any) -> Iterator[Profiled]:
    """Profile the block; what holds for every trace holds for its."""
    found = Profiled()
    with profile(**options) as found.prof:
        yield found
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.prof.export_perfetto(path)
        found.trace = SeenTrace(path)
    fits_together(found.trace)


def fits_together(trace: SeenTrace) -> None:
    error_ns = trace.frames.clock_error_ns
    assert broken_rules(trace.document) == []
    assert [rank.name for rank in trace.frames.ranks] == list(NAMES)
    for rank in trace.frames.ranks:
        assert rank.num_worker_threads == THREADS
        assert (rank.pid, "main") in rank.threads
        assert (rank.cpu_s or 0) > 0
    for call in trace.calls:
        times_come_in_their_order(call, error_ns)
        the_parts_of_serving_fit_into_its_time(call)
        for each in call.operators:
            assert (each.rank, each.thread) == (call.server_rank, call.server_thread)
            assert each.link == call.link
            assert call.server_start_ns <= each.start_ns <= each.end_ns <= call.server_end_ns
    a_thread_serves_one_call_at_a_time(trace.calls)


def times_come_in_their_order(call: SeenCall, error_ns: int) -> None:
    """Those of different clocks may be wrong by `error_ns`."""
    assert (call.end_ns is None) == (call.status == "unfinished"), call
    assert call.start_ns <= call.issued_ns
    assert call.end_ns is None or call.start_ns < call.end_ns
    if call.server_start_ns is None:
        return
    assert call.start_ns <= call.server_start_ns + error_ns
    if call.server_end_ns is not None:
        assert call.server_start_ns <= call.server_end_ns
        assert call.done_ns is None or call.server_start_ns <= call.done_ns
    if call.status in ("ok", "raised") and call.body == "python":
        assert max(call.server_end_ns, call.done_ns or 0) <= call.end_ns + error_ns


def the_parts_of_serving_fit_into_its_time(call: SeenCall) -> None:
    if call.body != "python" or call.server_end_ns is None:
        assert (call.cpu_ns, call.run_queue_ns) == (None, None)
        return
    # The two clocks may differ by some parts in a million.
    assert 0 < call.cpu_ns <= 1.001 * call.served_ns
    # The clocks are read one after another, and the thread may lose its CPU in between.
    assert 0 <= call.run_queue_ns <= call.served_ns - call.cpu_ns + 5_000_000


def a_thread_serves_one_call_at_a_time(calls: Sequence[SeenCall]) -> None:
    ended = [call for call in calls if call.server_end_ns is not None]
    ended.sort(key=lambda call: (call.server_rank, call.server_thread, call.server_start_ns))
    for one, other in pairwise(ended):
        if (one.server_rank, one.server_thread) == (other.server_rank, other.server_thread):
            assert one.server_end_ns <= other.server_start_ns
