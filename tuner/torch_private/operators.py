"""Records operators with Kineto."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import torch

# Kineto prints this, at any log level, if it first starts in another thread than the one that
# imported torch. It records nevertheless.
_KINETO_THREAD_COMPLAINT = b"External init callback must run in same thread"


class RecordedOperator(NamedTuple):
    """One event of Kineto: an ATen operator, or a TorchScript function."""

    name: str
    thread: int
    """The kernel's thread id."""
    start_ns: int
    """Unix time, on the clock of `time.time_ns()`."""
    end_ns: int
    is_operator: bool


class OperatorProfiler:
    """Records the operators of all threads of this process; any thread may start or stop it."""

    # Values of ATen's RecordScope: forward and backward functions, and TorchScript functions.
    _OPERATORS = (0, 1)
    _SCRIPT = 2

    def __init__(self) -> None:
        if self._some_profiler_runs():
            raise RuntimeError("another profiler is running in this process")
        config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        # By default Kineto prints a line at each start and stop.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._profile = torch.autograd.profiler.profile(use_kineto=True, experimental_config=config)
        with _stderr_without(_KINETO_THREAD_COMPLAINT):
            self._profile.__enter__()  # type: ignore[no-untyped-call]

    @staticmethod
    def _some_profiler_runs() -> bool:
        return bool(torch.autograd.profiler._is_profiler_enabled)

    def stop(self) -> tuple[list[RecordedOperator], bool]:
        """The operators in no order, and whether another profiler ended the recording early.

        Equal names are one string object.
        """
        disturbed = not self._some_profiler_runs()
        self._profile.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        results = self._profile.kineto_results
        names: dict[str, str] = {}
        recorded = []
        for event in results.events() if results is not None else ():
            scope = event.scope()
            if scope in self._OPERATORS or scope == self._SCRIPT:
                name = event.name()
                recorded.append(
                    RecordedOperator(
                        names.setdefault(name, name),
                        event.device_resource_id(),
                        start_ns := event.start_ns(),
                        start_ns + event.duration_ns(),
                        scope != self._SCRIPT,
                    )
                )
        return recorded, disturbed


@contextmanager
def _stderr_without(unwanted: bytes) -> Iterator[None]:
    """Hold back what C++ writes to stderr, and then pass on all but the unwanted lines."""
    try:
        terminal = os.dup(2)
    except OSError:  # this process has no stderr
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            held.seek(0)
            lines = [line for line in held if unwanted not in line]
            with suppress(OSError):
                os.write(terminal, b"".join(lines))
            os.close(terminal)
