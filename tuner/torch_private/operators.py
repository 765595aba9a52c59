"""Records operators with Kineto, up to a bound."""

import ctypes
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import torch

from tuner.cpus import usable_cpus
from tuner.daemon_threads import start_daemon
from tuner.torch_private.agent import all_workers

MOST_OPERATORS = 200_000
"""Of one process, while there are CPUs for all. To end a recording takes Kineto some 6 us for each,
all the while with the GIL, and 1.3 kB; to hand it over takes 4 us more."""
_LEAST_BOUND, _MOST_READ = 20_000, 2_000_000
"""A rank records so many however many ranks there are; and all of them together, or nearly so."""
# Kineto prints these, at any log level: if it first starts in another thread than the one that
# imported torch, and if it is stopped early. It records nevertheless.
_COMPLAINTS = (
    b"External init callback must run in same thread",
    b"Toggling CPU activity with GPU activity on",
)
_BLOCK = 512
_BLOCKS = (
    "_ZZN5torch8profiler4impl19ThreadLocalSubqueue14TorchOpStorage10EventBlockINS1_"
    f"21KinetoObserverContext5EventELm{_BLOCK}EEC4EvE8counter_"
)
"""How many blocks of _BLOCK operators Kineto has begun in this process. It has no other count."""
_PER_CPU_S, _LEAST_BYTES = 1_000_000, 200
"""A CPU second records no more operators, and each takes so much memory."""
_LONGEST_PAUSE_S, _SHORTEST_PAUSE_S = 0.25, 0.02
_IS_OPERATOR = {0: True, 1: True, 2: False}
"""By ATen's RecordScope of forward and backward functions, and of TorchScript functions."""


class RecordedOperators(NamedTuple):
    """What a profiler has recorded."""

    spans: list[tuple[str, int, int, int, bool]]
    """In no order: of each its name, the kernel's id of its thread, its start and end in Unix
    nanoseconds, and whether it is an operator, else a TorchScript function."""
    was_disturbed: bool
    """Whether another profiler ended the recording early."""
    until_ns: int | None
    """Of those that began later not all are there, since they were too many; None: all are."""


class OperatorProfiler:
    """Records the operators of all threads of this process; any thread may start or stop it. Of
    very many it records the first ones: `most`, and what comes until a thread notices it."""

    def __init__(self, most: int = MOST_OPERATORS) -> None:
        if torch.autograd.profiler._is_profiler_enabled:
            raise RuntimeError("another profiler is running in this process")
        config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        # By default Kineto prints a line at each start and stop.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self.most = most
        """May be lowered at any time."""
        self._until_ns: int | None = None
        self._is_over = threading.Event()
        self._profile = torch.autograd.profiler.profile(use_kineto=True, experimental_config=config)
        with _stderr_without(_COMPLAINTS):
            self._profile.__enter__()  # type: ignore[no-untyped-call]
        self._recorded = operator_count() or _most_recorded()
        self._watching = start_daemon(self._watch, "rpc-tuner operators", is_over=self._is_over)

    @property
    def is_cut(self) -> bool:
        """Whether it has stopped early, since there were too many."""
        return self._until_ns is not None

    def stop(self) -> RecordedOperators:
        """End the recording, and return what it holds."""
        was_disturbed = self.discard()
        results = self._profile.kineto_results
        spans = [
            (
                sys.intern(event.name()),
                event.device_resource_id(),
                start_ns := event.start_ns(),
                start_ns + event.duration_ns(),
                _IS_OPERATOR[scope],
            )
            for event in (results.events() if results is not None else ())
            if (scope := event.scope()) in _IS_OPERATOR
        ]
        self._profile.kineto_results = None
        return RecordedOperators(spans, was_disturbed, self._until_ns)

    def discard(self) -> bool:
        """End the recording; whether another profiler has ended it early."""
        self._is_over.set()
        if self._watching.is_alive():
            self._watching.join()
        was_disturbed = not torch.autograd.profiler._is_profiler_enabled
        self._profile.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        return was_disturbed

    def _watch(self, is_over: threading.Event) -> None:
        pause_s = _SHORTEST_PAUSE_S
        while not is_over.wait(pause_s):
            left = self.most - self._recorded()
            if left <= 0:
                self._stop_early()
                return
            pause_s = left / _PER_CPU_S / (os.cpu_count() or 1)
            pause_s = min(max(pause_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)

    def _stop_early(self) -> None:
        """Record none that begins from now on. To end the recording would stop the program for as
        long as that takes: this is done when the program is done."""
        self._until_ns = time.time_ns()
        with suppress(RuntimeError), _stderr_without(_COMPLAINTS):
            # A profiler that the program has started meanwhile has ended this one.
            self._profile.toggle_collection_dynamic(False, {torch.profiler.ProfilerActivity.CPU})


def operators_here() -> int:
    """How many operators each rank records, so that they hand them over within seconds: on fewer
    CPUs than there are ranks each takes longer, and all are read by one process."""
    ranks = len(all_workers())
    shared = min(MOST_OPERATORS * min(ranks, usable_cpus()), _MOST_READ) // ranks
    return max(_LEAST_BOUND, min(shared, MOST_OPERATORS))


def operator_count() -> Callable[[], int] | None:
    """What counts the operators that Kineto records from now on, a block of each thread too many;
    None where this torch does not tell."""
    library = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    try:
        blocks = ctypes.c_uint64.in_dll(ctypes.CDLL(str(library)), _BLOCKS)
    except (OSError, ValueError):
        return None
    before = blocks.value
    return lambda: (blocks.value - before) * _BLOCK


def _most_recorded() -> Callable[[], int]:
    """What says how many operators may have been recorded from now on, at most: by the CPU time,
    and by the memory that the process has more than now."""
    began_s, before = time.process_time(), _resident_bytes()

    def at_most() -> int:
        by_time = (time.process_time() - began_s) * _PER_CPU_S
        by_memory = (_resident_bytes() - before) / _LEAST_BYTES
        return int(max(0.0, min(by_time, by_memory)))

    return at_most


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@contextmanager
def _stderr_without(unwanted: Sequence[bytes]) -> Iterator[None]:
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
            lines = [line for line in held if not any(word in line for word in unwanted)]
            with suppress(OSError):
                os.write(terminal, b"".join(lines))
            os.close(terminal)
