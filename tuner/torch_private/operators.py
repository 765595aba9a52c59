"""Records operators with Kineto."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

# Kineto prints this, at any log level, if it first starts in another thread than the one that
# imported torch. It records nevertheless.
_KINETO_THREAD_COMPLAINT = b"External init callback must run in same thread"
_IS_OPERATOR = {0: True, 1: True, 2: False}
"""By ATen's RecordScope of forward and backward functions, and of TorchScript functions."""


class OperatorProfiler:
    """Records the operators of all threads of this process; any thread may start or stop it."""

    def __init__(self) -> None:
        if torch.autograd.profiler._is_profiler_enabled:
            raise RuntimeError("another profiler is running in this process")
        config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        # By default Kineto prints a line at each start and stop.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._profile = torch.autograd.profiler.profile(use_kineto=True, experimental_config=config)
        with _stderr_without(_KINETO_THREAD_COMPLAINT):
            self._profile.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> tuple[list[tuple[str, int, int, int, bool]], bool]:
        """The operators in no order, and whether another profiler ended the recording early.

        Of each: its name, the kernel's id of its thread, its start and end in Unix nanoseconds,
        and whether it is an operator, else a TorchScript function.
        """
        disturbed = not torch.autograd.profiler._is_profiler_enabled
        self._profile.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        results = self._profile.kineto_results
        recorded = [
            (
                sys.intern(event.name()),
                event.device_resource_id(),
                start_ns := event.start_ns(),
                start_ns + event.duration_ns(),
                _IS_OPERATOR[event.scope()],
            )
            for event in (results.events() if results is not None else ())
            if event.scope() in _IS_OPERATOR
        ]
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
