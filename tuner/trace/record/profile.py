"""`tuner.profile()`: what happens on all ranks of a person's own RPC program, from one of them."""

from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from tuner.errors import TraceError
from tuner.files import written_atomically
from tuner.trace.files.native_writer import trace_document
from tuner.trace.record.driver import TraceDriver
from tuner.trace.record.merge import merge

if TYPE_CHECKING:
    import pandas as pd

    from tuner.trace.analyze.diagnosis import Diagnosis
    from tuner.trace.model.trace import Trace


class Profile:
    """Records every RPC of every rank while its `with` block runs; read it afterwards."""

    def __init__(self, *, operators: bool = True, drain_s: float = 5.0) -> None:
        self._driver = TraceDriver(operators=operators, drain_s=drain_s)
        self._document: bytes | None = None
        self._why_not = "the profile is read once its with block has ended"

    def __enter__(self) -> Self:
        self._driver.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._document = trace_document(merge(*self._driver.stop()))
        except TraceError as problem:
            self._why_not = str(problem)
            # What ended the block matters more, and may be why the trace has holes.
            if error is None:
                raise

    @cached_property
    def trace(self) -> "Trace":
        """All of it, as frames. TraceError before the block has ended."""
        from tuner.trace.files.native_reader import trace_of

        return trace_of(self._finished, "the profile")

    @property
    def calls(self) -> "pd.DataFrame":
        """One row per call: `tuner.trace.model.columns.CALL_COLUMNS`, times in ns."""
        return self.trace.calls

    @property
    def operators(self) -> "pd.DataFrame":
        """One row per operator: `tuner.trace.model.columns.OPERATOR_COLUMNS`, times in ns."""
        return self.trace.operators

    def key_averages(self) -> "pd.DataFrame":
        """The recipe's table as a frame: one row per call key or operator, times in us."""
        from tuner.trace.analyze.recipe_table import recipe_table

        return recipe_table(self.trace)

    def table(self, row_limit: int | None = 100) -> str:
        """The recipe's table as text, the largest CPU total first."""
        from tuner.trace.analyze.recipe_table import format_table

        return format_table(self.key_averages(), row_limit)

    def latency(self) -> "pd.DataFrame":
        """One row per call key: calls, p50_us, p90_us, p99_us, max_us, total_us."""
        from tuner.trace.analyze.call_times import latency

        return latency(self.trace.calls)

    def breakdown(self) -> "pd.DataFrame":
        """One row per call key: where the time of a call goes, means in us."""
        from tuner.trace.analyze.call_times import breakdown

        return breakdown(self.trace.calls)

    def parallelism(self, source: Literal["calls", "operators"] = "calls") -> "pd.DataFrame":
        """One row per server: how many of its calls, or threads in operators, ran at once."""
        from tuner.trace.analyze.parallelism import parallelism

        return parallelism(self.trace, source)

    def diagnosis(self) -> "Diagnosis":
        """What limits the busiest server, in a sentence or two with the numbers."""
        from tuner.trace.analyze.diagnosis import diagnose

        return diagnose(self.trace)

    def export_perfetto(self, path: str | Path) -> None:
        """Write the trace; ui.perfetto.dev and `python -m tuner.analyze` open it."""
        with written_atomically(Path(path)) as partial:
            partial.write_bytes(self._finished)

    @property
    def _finished(self) -> bytes:
        if self._document is None:
            raise TraceError(self._why_not)
        return self._document


def profile(*, operators: bool = True, drain_s: float = 5.0) -> Profile:
    """Profile every RPC on all ranks: `with tuner.profile() as prof:` after `init_rpc`.

    The other ranks need the package installed, and nothing else. Without `operators` only the
    calls are recorded, which costs the least. Calls still under way when the block ends get
    `drain_s` seconds to end; those that do not are kept as unfinished.

    Raises TraceError if a rank cannot be traced, or if the trace turns out to be incomplete.
    """
    return Profile(operators=operators, drain_s=drain_s)
