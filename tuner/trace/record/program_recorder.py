"""Records one process of a program for itself: from `init_rpc` to its end, into a journal.

No process coordinates the ranks. Each one says that it can read marked requests before its agent
starts, and none can send it a request before that. A rank that does not say so gets plain requests.
"""

import atexit
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.util import Finalize
from pathlib import Path
from time import time_ns
from typing import Any

from tuner.cpus import usable_cpus
from tuner.daemon_threads import start_daemon
from tuner.process_knobs import intra_op_threads_now, traced_interval_s
from tuner.torch_private.agent import default_timeout_s, scripts_call, worker_threads
from tuner.torch_private.operators import OperatorProfiler, operators_here
from tuner.torch_private.support import missing_tracing_support
from tuner.trace.record.callbacks import Callbacks
from tuner.trace.record.client import WATCH_S, Client, OpenCall
from tuner.trace.record.clock import boot_id
from tuner.trace.record.journal import EVERYBODY_READS, MOST_CALLS, NOTHING, STATUSES, Journal
from tuner.trace.record.server import Server, serving_now
from tuner.trace.record.threads import Usage, forget_threads, this_thread, thread_names
from tuner.trace.record.wire import Ends

DRAIN_S = 5.0  # what calls under way get to end once the window is over
_POLL_S = 0.02


class ProgramRecorder:
    """The recording of one agent of this process.

    Reports `recording` before the agent starts, `record-start`, and `record-end` with what only the
    process itself knows. The calls are in the journal at all times.
    """

    def __init__(
        self, name: str, rank: int, folder: Path, order: Mapping[str, Any],
        report: Callable[..., None],
    ) -> None:  # fmt: skip
        """Record what this rank serves from its first request on. RuntimeError if it cannot.

        `order` has `operators`, `start_after_s`, and `for_s`, which is None for no end.
        """
        if missing := missing_tracing_support(operators=order["operators"]):
            raise RuntimeError("; ".join(missing))
        self._folder = folder
        self._order = order
        self._report = report
        self._pid = os.getpid()
        self._profiler: OperatorProfiler | None = None
        self._usage = Usage()
        self._at_window_end: tuple[list[int], dict[str, object]] | None = None
        self._ending = threading.Lock()
        self._has_ended = False
        self._is_over = threading.Event()
        self._has_window = bool(order["start_after_s"]) or order["for_s"] is not None
        files, readers = f"{self._pid}-{time_ns()}", _Readers(folder)
        self._journal = journal = Journal(folder / files)
        self._server = _JournaledServer(journal)
        self._client = JournaledClient(
            rank, journal, self._server, readers, self._usage.look_at_times
        )
        self._server.start()
        Ends.client, Ends.server = self._client, self._server
        readers.mark(name).touch()
        host = {"host": platform.node(), "boot_id": boot_id(), "cpu_count": usable_cpus()}
        report("recording", journal=files, **host)
        # A child by fork ends by os._exit, without atexit but with the finalizers.
        atexit.register(self.end, "exit")
        self._finalizer = Finalize(None, self.end, args=("exit",), exitpriority=0)
        if not self._has_window:
            # Before `start`: as soon as the agent has started, a function that a quicker rank calls
            # may make calls of its own.
            self._start_issuing()

    def start(self) -> None:
        """The agent has started."""
        if self._has_window:
            start_daemon(self._keep_window, "rpc-tuner window", is_over=self._is_over)
        else:
            self._note_start()

    def end(self, reason: str) -> None:
        """Record nothing further; `reason` is `shutdown`, `init-failed`, `window` or `exit`."""
        if os.getpid() != self._pid:  # a child that was forked from this process
            return
        with self._ending:
            if not self._has_ended:
                self._has_ended = True
                self._hand_over(reason)
        if reason != "window":
            self._is_over.set()
        if reason in ("shutdown", "init-failed"):
            self._release()

    def _release(self) -> None:
        """Keep nothing open: the process may start RPC again, as often as it likes."""
        self._server.stop()
        Ends.client = Ends.server = None
        self._journal.close()
        forget_threads()
        atexit.unregister(self.end)
        self._finalizer.cancel()

    def _start_issuing(self) -> None:
        with self._ending:
            if not self._has_ended:  # else the program was quicker than its window
                self._profiler = OperatorProfiler() if self._order["operators"] else None
                self._client.start()

    def _note_start(self) -> None:
        self._usage.begin()
        threads, timeout_s = worker_threads(), default_timeout_s()
        self._report("record-start", num_worker_threads=threads, rpc_timeout_s=timeout_s)
        if self._profiler is not None:
            self._profiler.most = operators_here()  # the ranks are known by now

    def _keep_window(self, is_over: threading.Event) -> None:
        if is_over.wait(self._order["start_after_s"]):
            return
        self._start_issuing()
        self._note_start()
        if self._order["for_s"] is None or is_over.wait(self._order["for_s"]):
            return
        self._client.pause()
        self._report("window-end")
        self._at_window_end, until = self._standing(), time.monotonic() + DRAIN_S
        # Once at least: what has arrived, or has been counted, is under way by then.
        while not is_over.wait(_POLL_S) and self._client.pending and time.monotonic() < until:
            pass
        self.end("window")

    def _standing(self) -> tuple[list[int], dict[str, object]]:
        """The calls that have arrived, and facts; what arrives later is recorded, too."""
        counted_ns, arrivals = time_ns(), list(self._server.arrivals)
        used = self._usage.read()
        return arrivals, {
            "cpu_s": used.cpu_s, "main_thread_s": used.main, "other_threads_s": used.others,
            "pool_threads_s": used.pool, "intra_op_threads": intra_op_threads_now(),
            "switch_interval_s": traced_interval_s(), "counted_ns": counted_ns,
        }  # fmt: skip

    def _hand_over(self, reason: str) -> None:
        # All that comes is no time of the program.
        self._report("hand-over")
        arrivals, facts = self._at_window_end or self._standing()
        self._client.pause()
        self._client.end_silent_calls()
        self._client.stop()
        self._client.note_ended_calls()
        self._client.note_open_calls(time_ns())
        self._server.note_pickled()
        self._journal.note_arrivals(arrivals)
        disturbed = False
        if self._profiler is not None:
            operators, disturbed, until_ns = self._profiler.stop()
            facts["operators"] = name = f"{self._pid}-{time_ns()}.operators"
            (self._folder / name).write_text(json.dumps(operators))
            if until_ns is not None:
                facts["operators_until_ns"] = until_ns
        threads = [int(task.name) for task in Path("/proc/self/task").iterdir()]
        self._report(
            "record-end",
            reason=reason,
            threads=[*thread_names(serving=(), others=threads).items()],
            issued=[[server, body, by] for (server, body), by in self._client.issued.items()],
            is_cut=self._client.is_cut,
            disturbed=disturbed,
            scripts_call=scripts_call(),
            **facts,
        )


class _Readers(dict[str, bool]):
    """Whether a rank, by its name, can read marked requests; looked up once, in the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> bool:
        self[name] = self.mark(name).exists() or (self._folder / EVERYBODY_READS).exists()
        return self[name]

    def mark(self, name: str) -> Path:
        """The file by which a rank says that it can."""
        return self._folder / f"{name}.reads"


class _JournaledServer(Server):
    """Records the calls that this process serves, as they happen."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal.served)
        self._journal = journal

    def done(self, call_id: int) -> None:
        self._journal.done.put(call_id, time_ns())

    def raised(self, call_id: int, error: str) -> None:
        self._journal.raised.put(call_id, 1 + self._journal.error(error))

    def note_pickled(self) -> None:
        """Note the answers that took long to pickle, until now."""
        for call_id, pickled_ns, tensors, their_bytes in self.long_pickled():
            self._journal.answered.put(call_id, tensors, their_bytes, pickled_ns)

    def took_long_to_unpickle(self, call_id: int, began_ns: int, ended_ns: int) -> None:
        self._journal.unpickled.put(call_id, began_ns, ended_ns)

    def note_open_calls(self, began_ns: int, began_before_ns: int) -> None:
        """Note the calls that are being served and began in this span of time."""
        for each in serving_now():
            if began_ns <= each.start_ns < began_before_ns:
                record = (each.call_id, each.thread.id, each.start_ns, 0, b"", b"", NOTHING)
                self._journal.served.put(*record)


class JournaledClient(Client):
    """Records the calls that this process issues, also those to ranks that record nothing.

    Every WATCH_S seconds it notes the calls that have ended since, and once those under way that
    are older. A process that is killed loses the calls that it issued in its last moment, and none
    that it served.
    """

    def __init__(
        self, rank: int, journal: Journal, server: _JournaledServer, reads: Mapping[str, bool],
        see_threads: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        super().__init__(rank, reads, Callbacks(journal.callbacks, journal.text), see_threads)
        self._keep_sent, self._keep_ended = self._keep_ended, self._keep_sent
        self._journal = journal
        self._server = server
        self._targets: dict[tuple[str, str, str, int, str, str], int] = {}
        self._noted_before_ns = 0
        self.is_cut = False
        """Whether it made more calls than are recorded, or than the disk has room for."""

    def note_ended_calls(self) -> None:
        """Note the calls that have ended until now: the watch, and once that has ended, `end`."""
        count = len(self._kept)
        for call in self._kept[:count]:
            self._note(call)
        del self._kept[:count]

    def noted(self, name: str, start_ns: int) -> None:
        """See `Client.noted`."""
        text = self._journal.text(name)
        self._journal.noted.put(text, this_thread().id, start_ns, time_ns())

    def took_long_to_unpickle(self, call_id: int, began_ns: int) -> None:
        """See `Client.took_long_to_unpickle`."""
        self._journal.received.put(call_id, began_ns)

    def sampled(self, asked_ns: int, waited_ns: int, slept_ns: int) -> None:
        """See `Client.sampled`."""
        self._journal.gil.put(asked_ns, waited_ns, slept_ns)

    def paused(self, at_ns: int, thread: int, why: str, site: str, is_open: bool) -> None:
        """See `Client.paused`."""
        text = self._journal.text(json.dumps([why, site, is_open]))
        self._journal.pauses.put(thread, text, at_ns)

    def note_open_calls(self, began_before_ns: int) -> None:
        """Note the calls under way of both ends that began before this time, and were not noted."""
        since_ns, self._noted_before_ns = self._noted_before_ns, began_before_ns
        for call in list(self._open.values()):
            if since_ns <= call.start_ns < began_before_ns:
                self._note(call)
        self._server.note_open_calls(since_ns, began_before_ns)
        self.callbacks.note_running(since_ns, began_before_ns)

    def _look(self) -> None:
        super()._look()
        self.note_ended_calls()
        self._server.note_pickled()
        self.note_open_calls(time_ns() - round(WATCH_S * 1e9))
        if self._journal.is_full or len(self._counts) > MOST_CALLS:
            self.is_cut, self.is_issuing = True, False

    def _note(self, call: OpenCall) -> None:
        target, (end_ns, status, error) = call.target, call.end
        kind, function, server, rank, defined = target
        key = (kind, function, server, rank, call.body, defined)
        text = self._targets.get(key)
        if text is None:
            text = self._targets[key] = self._journal.text(json.dumps(key))
        self._journal.calls.put(
            call.call_id,
            text,
            call.thread,
            NOTHING if call.parent is None else call.parent,
            call.start_ns,
            call.issued_ns,
            STATUSES.index(status),
            self._journal.error(error) if error else NOTHING,
            NOTHING if call.timeout_s is None else call.timeout_s,
            NOTHING if call.request_bytes is None else call.request_bytes,
            NOTHING if call.request_tensors is None else call.request_tensors,
            NOTHING if call.same_as is None else call.same_as,
            self._journal.text(call.site) if call.site else NOTHING,
            NOTHING if end_ns is None else end_ns,
        )
