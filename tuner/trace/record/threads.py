"""What the tracer keeps for each thread of its process."""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import get_ident, get_native_id
from typing import Any, NamedTuple, TypeVar

from tuner.daemon_threads import running_daemons
from tuner.process_knobs import has_gil
from tuner.torch_private.intra_op import openmp_code, thread_ids, waiting_threads

_T = TypeVar("_T")
_UNUSED = b"0 0 0"
_FILE_BYTES = 256  # more than the longest of what the kernel says
SCHEDULE_BYTES = 64  # more than the longest content of a `schedule`
_LOOK_EVERY_S = 0.5  # a thread that ends loses what it did since
NEGLIGIBLE_NS = 20_000  # the run queue is not read for less time than this off the CPU


class Thread:
    """One thread. Other threads read `serving` only."""

    __slots__ = (
        "answering", "answers_quickly", "callback", "id", "ident", "is_worker", "issuing_to",
        "schedule", "serving",
    )  # fmt: skip

    def __init__(self, native_id: int) -> None:
        self.id = native_id
        self.ident = get_ident()  # Python's identity of it: it makes this itself
        self.serving: Any = None
        """What ends the call that is being served; its first argument is a `server.Serving`."""
        self.answering: tuple[Any, int, int] | None = None
        """The server and the id of the call whose exception is about to be pickled, and when its
        function ended."""
        self.answers_quickly = False
        """Whether the answer that it is about to send is one plain value or tensor."""
        self.issuing_to: object = None
        """The call that is being issued."""
        self.callback: Any = None
        """The callback that runs: see `callbacks`."""
        self.is_worker: bool | None = None
        """Whether it is a thread of the agent's pool, as far as the kernel's name for it says."""
        self.schedule: int | None = None
        """A file that says how long the thread waited for a CPU: see `waited_ns`."""

    @property
    def served_call(self) -> int | None:
        """The id of the call that is being served."""
        return None if self.serving is None else self.serving.args[0][1]

    def open_schedule(self) -> int:
        """Open `schedule`; the file is empty where the kernel does not measure waits."""
        try:
            path = f"/proc/self/task/{self.id}/schedstat"
            self.schedule = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.schedule = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self.schedule

    # At the end of the interpreter modules are gone first.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.schedule is not None:
            close(self.schedule)


threads: dict[int, Thread] = {}
"""By the kernel's id of each. For Python, an RPC thread is a new thread in every call."""
agent_threads: dict[int, Thread] = {}
"""Those that serve, by Python's identity of each, which takes no system call to get. Others may
have the identity of a thread that has ended; these end with the agent."""


def this_thread() -> Thread:
    """The same object for as long as the thread lives."""
    native_id = get_native_id()
    try:
        return threads[native_id]
    except KeyError:
        return threads.setdefault(native_id, Thread(native_id))


def agent_thread() -> Thread:
    """This thread, which serves for the first time."""
    agent_threads[get_ident()] = thread = this_thread()
    return thread


def in_turn(function: Callable[..., _T]) -> Callable[..., _T]:
    """A function of C that is safe from any thread while there is a GIL: without one, a function
    that one thread at a time calls."""
    if has_gil():
        return function
    lock = threading.Lock()

    def alone(*arguments: Any) -> _T:
        with lock:
            return function(*arguments)

    return alone


def worker_thread() -> Thread | None:
    """This thread, which C++ has started, if it may be one of the agent's pool."""
    thread = this_thread()
    if thread.is_worker is None:
        name = kernel_says(thread.id, "comm").decode().strip()
        # Those of process groups and of autograd run callbacks, too.
        thread.is_worker = name == "pt_thread_pool" or not name.startswith("pt_")
    if not thread.is_worker:
        return None
    agent_threads[get_ident()] = thread
    return thread


def forget_threads() -> None:
    """Drop all threads, and close their files: some threads end between traces."""
    threads.clear()
    agent_threads.clear()


class Used(NamedTuple):
    """What a process has used of CPUs, in seconds; None where the kernel does not measure it."""

    cpu_s: float
    main: tuple[float, float] | None
    """What its main thread has, and for how long that was ready and waited for a CPU."""
    others: tuple[float, float] | None
    """The same of the program's other threads together: those that Python started, none of which
    serves calls."""
    pool: tuple[float, float] | None
    """The same of the threads that PyTorch's operators have started. A thread that starts operators
    computes with its pool, and is none of it."""


NOTHING_USED = Used(0.0, None, None, None)


class Usage:
    """What this process, and the program's threads in it, use from `begin` on."""

    def __init__(self) -> None:
        self._openmp = openmp_code()
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._cpu_s = time.process_time()
        self._main = _schedule(os.getpid())
        # By thread: when it was seen first, and last, for it may end meanwhile.
        self._others = {
            thread: (found := _schedule(thread.native_id), found) for thread in _program_threads()
        }
        # By the kernel's id. It is seen later which of them are a pool's.
        self._before = {thread: _schedule(thread) for thread in thread_ids()}
        self._pool: dict[int, bytes] = {}
        self._is_told_who_waits = False
        self._looks_next_s = 0.0

    def look_at_times(self) -> None:
        """Look, if the last look was some time ago."""
        if (now_s := time.monotonic()) >= self._looks_next_s:
            self._looks_next_s = now_s + _LOOK_EVERY_S
            self.look()

    def look(self) -> None:
        """See what threads have used that may have ended at the next time."""
        for thread in _program_threads():
            if found := _schedule(thread.native_id):
                # All of one that is new comes from now on.
                first, _ = self._others.get(thread, (_UNUSED, found))
                self._others[thread] = first, found
        self._look_for_pools()

    def _look_for_pools(self) -> None:
        known = {thread.native_id for thread in threading.enumerate()}
        waiting = waiting_threads(self._openmp)
        self._is_told_who_waits |= bool(waiting)
        for thread, is_in_openmp in waiting.items():
            # A thread that started an operator waits for its pool there, and elsewhere later.
            if is_in_openmp and thread not in known and thread not in threads:
                self._pool.setdefault(thread, b"")
            else:
                self._pool.pop(thread, None)
        for thread in list(self._pool):
            if found := _schedule(thread):
                self._pool[thread] = found

    def read(self) -> Used:
        """What was used so far."""
        self.look()
        main = _between(self._main, _schedule(os.getpid()))
        others = _sums(list(self._others.values()))
        pool = _sums([(self._before.get(id, _UNUSED), now) for id, now in [*self._pool.items()]])
        is_told = main is not None
        return Used(
            time.process_time() - self._cpu_s,
            main,
            others if is_told else None,
            pool if is_told and self._is_told_who_waits else None,
        )


def _program_threads() -> list[threading.Thread]:
    """What Python has started but the main thread and ours; the agent's are dummies to Python."""
    left_out = {threading.main_thread(), *running_daemons()}
    known = [thread for thread in threading.enumerate() if thread not in left_out]
    return [thread for thread in known if not isinstance(thread, threading._DummyThread)]


def _sums(schedules: Iterable[tuple[bytes, bytes]]) -> tuple[float, float]:
    """What these used together, each from its first `schedule` to its second."""
    used = [*filter(None, itertools.starmap(_between, schedules))]
    return sum(pair[0] for pair in used), sum(pair[1] for pair in used)


def _between(before: bytes, now: bytes) -> tuple[float, float] | None:
    """Seconds on a CPU, and ready without one, between two `schedule`s; None if one is empty."""
    waited = waited_ns(before, now, at_most_ns=2**63)
    if waited is None:
        return None
    # The kernel may have given the id of a thread that ended to another one.
    return max(int(now.split()[0]) - int(before.split()[0]), 0) / 1e9, waited / 1e9


def _schedule(thread: int | None) -> bytes:
    """Empty where the kernel does not measure it, or the thread has ended."""
    return kernel_says(thread, "schedstat")


def kernel_says(thread: int | None, what: str) -> bytes:
    """What the kernel tells of a thread of this process in a short file of this name; empty where
    it does not, or the thread has ended."""
    with suppress(OSError):
        # `Path.read_bytes` takes ten times as long.
        file = os.open(f"/proc/self/task/{thread}/{what}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, _FILE_BYTES)
        finally:
            os.close(file)
    return b""


def waited_ns(before: bytes, after: bytes, *, at_most_ns: int) -> int | None:
    """Nanoseconds on the run queue between two `schedule`s; None if one is empty."""
    if not before or not after:
        return None
    # The fields are CPU time, time on the run queue, number of time slices. Where the clocks of
    # CPUs differ, the kernel's unsigned 64 bit counter steps back a little, even to below 0.
    waited = (int(after.split()[1]) - int(before.split()[1])) % 2**64
    return max(0, min(waited, at_most_ns)) if waited < 2**63 else 0


def slices_between(before: bytes, after: bytes) -> int | None:
    """How often the thread was given a CPU between two `schedule`s; None if that is not known."""
    first, last = (schedule.split()[2:3] for schedule in (before, after))
    return max(int(last[0]) - int(first[0]), 0) if first and last else None


def thread_names(serving: Iterable[int], others: Iterable[int]) -> dict[int, str]:
    """A name for each thread: its role, or the program's name for it, or the kernel's."""
    names = {thread: f"thread {thread}" for thread in others}
    for thread in names:
        if command := kernel_says(thread, "comm").decode().strip():
            names[thread] = f"{command} {thread}"
    for known in threading.enumerate():
        if known.native_id in names and not known.name.startswith("Dummy-"):
            names[known.native_id] = known.name
    for number, thread in enumerate(sorted(set(serving)), start=1):
        names[thread] = f"RPC worker {number}"
    return {**names, os.getpid(): "main"}
