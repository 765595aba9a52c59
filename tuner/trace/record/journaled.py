"""Both ends of the calls of a process that writes what it records into its journal."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from time import time_ns
from typing import Any

from torch.futures import Future

from tuner.torch_private.calls import CallTarget, python_request
from tuner.trace.record.client import Client, OpenCall, outcome
from tuner.trace.record.journal import (
    ARRIVED,
    CALLED,
    DONE,
    ENDED,
    MOST_CALLS,
    NEVER_CALLED,
    NOTHING,
    SERVED,
    STATUSES,
    Journal,
)
from tuner.trace.record.server import Ended, Server, server_span
from tuner.trace.record.threads import this_thread

_STATUS_NUMBERS = {status: number for number, status in enumerate(STATUSES)}


class JournaledClient(Client):
    """Records the calls that this process issues, also those to ranks that record nothing."""

    def __init__(self, rank: int, journal: Journal, reads: Callable[[str], bool]) -> None:
        """`reads` tells of a server, by its RPC name, whether it can read our requests."""
        super().__init__(rank)
        self._journal = journal
        self._reads = reads
        self._targets: dict[tuple[str, str, str, int, str], int] = {}
        self._totals: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._left = MOST_CALLS

    @property
    def is_cut(self) -> bool:
        """Whether the process made more calls than are recorded, or than the disk has room for."""
        return self._left <= 0 or self._journal.is_full

    @property
    def issued(self) -> dict[tuple[str, str], int]:
        """The number of calls issued, by server and body."""
        with self._lock:
            return dict(self._totals)

    def counted(self, server: str, body: str, by: int) -> None:
        """See `ClientHooks.counted`."""
        with self._lock:
            self._totals[server, body] += by

    def call_python(
        self,
        target: CallTarget,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Future[Any]:
        """See `ClientHooks.call_python`."""
        if self._reads(target.server):
            return super().call_python(target, func, args, kwargs)
        call = OpenCall(self._new_call_id(), target, "python")
        future = self._send(call, python_request(func, args, kwargs))

        def ended(future: Future[Any]) -> None:
            self.ended(call.call_id, time_ns(), *outcome(future))

        future.add_done_callback(ended)
        return future

    def wrapped(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        method: str | None,
    ) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """See `ClientHooks.wrapped`."""
        sent = super().wrapped(func, args, kwargs, method)
        server = self.issuing_to()
        return sent if server is None or self._reads(server) else (func, args, kwargs)

    def ended(self, call_id: int, end_ns: int, status: str, error: str) -> None:
        """A call has ended."""
        call = self._open.get(call_id)
        super().ended(call_id, end_ns, status, error)
        if call is not None:
            text = self._journal.text(error) if error else NOTHING
            # The answer may be here before the thread that issued the call has noted the time.
            issued_ns = call.issued_ns or end_ns
            number = _STATUS_NUMBERS[status]
            self._journal.add(ENDED, call_id, issued_ns, end_ns, number, text)

    def _note_sent(self, call: OpenCall) -> None:
        target = call.target
        key = (target.kind, target.function, target.server, target.server_rank, call.body)
        number = self._targets.get(key)
        if number is None:
            number = self._targets[key] = self._journal.text(json.dumps(key))
        parent = NOTHING if call.parent is None else call.parent
        self._journal.add(CALLED, call.call_id, number, call.thread, parent, call.start_ns)
        self._left -= 1
        if self.is_cut:
            self.is_issuing = False

    def _forget(self, call: OpenCall) -> None:
        self._journal.add(NEVER_CALLED, call.call_id)


class JournaledServer(Server):
    """Records the calls that this process serves."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self.arrived = self._note_arrival
        self._note = self._note_end

    def done(self, call_id: int) -> None:
        """See `wire.ServerEnd.done`."""
        self._journal.add(DONE, call_id, time_ns())

    def _note_arrival(self, call_id: int) -> None:
        self._journal.add(ARRIVED, call_id, this_thread().id, time_ns())

    def _note_end(self, ended: Ended) -> None:
        span = server_span(ended)
        waited_ns = NOTHING if span.run_queue_ns is None else span.run_queue_ns
        self._journal.add(SERVED, *ended[:5], waited_ns)
