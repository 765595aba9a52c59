"""`tuner.profile()`: records the RPCs of all ranks of a user's own program, from one of them."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from tuner.errors import TraceError, telling_what_is_missing
from tuner.files import written_atomically
from tuner.trace.files.native_writer import trace_document
from tuner.trace.record.driver import TraceDriver
from tuner.trace.record.merge import merge

if TYPE_CHECKING:
    import pandas as pd

    from tuner.trace.analyze.diagnosis import Diagnosis
    from tuner.trace.model.trace import Trace


class Profile:
    """A recording of every RPC on every rank during a `with` block; see `tuner.profile`.

    Read it after the block: earlier, or if the trace is incomplete, all that reads it raises
    TraceError. Tables need pandas; without it they raise MissingPackageError, and `export_perfetto`
    works.
    """

    def __init__(self, *, operators: bool = True, drain_s: float = 5.0) -> None:
        self._driver = TraceDriver(operators=operators, drain_s=drain_s)
        self._document: bytes | None = None
        self._why_not = "read the profile after its with block has ended"

    def __enter__(self) -> Self:
        self._driver.start()
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._document = trace_document(merge(*self._driver.stop()))
        except TraceError as problem:
            self._why_not = str(problem)
            # The error that ended the block matters more, and may be why spans are missing.
            if raised[1] is None:
                raise

    @cached_property
    def trace(self) -> "Trace":
        """The whole trace: its frames `calls` and `operators`, and facts about it and its ranks."""
        document = self._finished
        # Ranks without pandas record all the same, and export what they have recorded.
        with telling_what_is_missing():
            from tuner.trace.files.native_reader import trace_of
        return trace_of(document, "the profile")

    @property
    def calls(self) -> "pd.DataFrame":
        """One row per call, by start: `tuner.trace.model.trace.CALL_COLUMNS`, times in ns."""
        return self.trace.calls

    @property
    def operators(self) -> "pd.DataFrame":
        """One row per operator: `tuner.trace.model.trace.OPERATOR_COLUMNS`, times in ns."""
        return self.trace.operators

    @property
    def callbacks(self) -> "pd.DataFrame":
        """One row per callback of a future: `tuner.trace.model.trace.CALLBACK_COLUMNS`."""
        return self.trace.callbacks

    def key_averages(self) -> "pd.DataFrame":
        """The table of PyTorch's RPC profiling recipe, as a frame.

        Returns:
            One row per call name and per operator, the largest "CPU total" first, in microseconds.
            As in PyTorch, that is wall time, and "Node ID" is the rank.
        """
        trace = self.trace
        from tuner.trace.analyze.recipe_table import recipe_table

        return recipe_table(trace)

    def table(self, row_limit: int | None = 100) -> str:
        """What `key_averages` returns as text, in the layout of PyTorch's profiler.

        Args:
            row_limit: How many rows to show at most; None for all of them.
        """
        averages = self.key_averages()
        from tuner.trace.analyze.recipe_table import format_table

        return format_table(averages, row_limit)

    def latency(self) -> "pd.DataFrame":
        """The latencies of calls: a row per call name, the index, the largest total first.

        A callback that held a worker thread has a row, too: from when the answer left the server.

        Returns:
            `calls` that ended; p50_us, p90_us, p99_us, max_us and total_us in microseconds; how
            many `raised` or `timed_out` (`failed`: both), and how many are `unfinished`.
        """
        trace = self.trace
        from tuner.trace.analyze.call_times import latency
        from tuner.trace.analyze.callbacks import with_callbacks

        return latency(with_callbacks(trace).calls)

    def breakdown(self) -> "pd.DataFrame":
        """Where the time of a call goes on average: a row per call name, the longest first.

        Returns:
            `calls`, and means in microseconds. latency_us = transport_us + queue_us (an estimate)
            + served_us + pending_us, and served_us = on_cpu_us + run_queue_us + off_cpu_us.
        """
        trace = self.trace
        from tuner.trace.analyze.call_times import breakdown
        from tuner.trace.analyze.callbacks import with_callbacks

        return breakdown(with_callbacks(trace).calls)

    def parallelism(self, source: Literal["calls", "operators"] = "calls") -> "pd.DataFrame":
        """The parallelism: calls, or remote operators, that each server ran at once.

        Args:
            source: Whether to count calls or remote operators.

        Returns:
            One row per server: `server`, `rank`, `threads` (its num_worker_threads), `mean` over
            the whole window, `busy_fraction` of the window, `mean_while_busy`, `max`, `efficiency`
            (`mean_while_busy` over `threads`), and how many `calls` that is of.
        """
        trace = self.trace
        from tuner.trace.analyze.server_parallelism import parallelism

        return parallelism(trace, source)

    def critical_path(self) -> "pd.DataFrame":
        """What the process that waits for calls waited for, and what that waited for in turn.

        Returns:
            One row per `part` of a call, `process` and `function`, the largest `share` first. The
            shares are of the time and add up to 1; `ci_low` and `ci_high` are their intervals.
        """
        trace = self.trace
        from tuner.trace.analyze.critical_path import critical_path

        return critical_path(trace)

    def diagnosis(self) -> "Diagnosis":
        """What limits the process that waits for calls, by its critical path.

        Returns:
            The `limits`; `sentences` on them, also as `text`; and the `rule` of the first one.
        """
        trace = self.trace
        from tuner.trace.analyze.diagnosis import diagnose

        return diagnose(trace)

    def export_perfetto(self, path: str | Path) -> None:
        """Write the trace to a file that ui.perfetto.dev opens, and `tuner.read_trace` reads.

        Args:
            path: The file, which is replaced if it exists.

        Raises:
            OSError: The file cannot be written.
        """
        with written_atomically(Path(path)) as partial:
            partial.write_bytes(self._finished)

    @property
    def _finished(self) -> bytes:
        if self._document is None:
            raise TraceError(self._why_not)
        return self._document


def profile(*, operators: bool = True, drain_s: float = 5.0) -> Profile:
    """Records every RPC on all ranks during a block: `with tuner.profile() as prof:`.

    Call it on one rank, after `init_rpc`. The other ranks only need the package installed.

    Args:
        operators: Whether to record operators too. Without them, tracing costs the least.
        drain_s: How many seconds the calls that are under way at the end of the block get to end.
            Calls that take longer are kept as unfinished.

    Returns:
        A context manager; read the profile from it after the block.

    Raises:
        TraceError: RPC is not running in this process. The start of the block raises it if a rank
            cannot be traced, the end if spans are missing.
    """
    return Profile(operators=operators, drain_s=drain_s)
