"""Both ends of the calls of a process that writes what it records into its journal."""

import json
from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any

from torch.futures import Future

from tuner.torch_private.calls import CallTarget, python_request
from tuner.trace.record.client import WATCH_S, Client, OpenCall, outcome
from tuner.trace.record.journal import MOST_CALLS, NOTHING, STATUSES, Journal
from tuner.trace.record.server import Server
from tuner.trace.record.threads import serving_threads

_STATUS_NUMBERS = {status: number for number, status in enumerate(STATUSES)}


class JournaledServer(Server):
    """Records the calls that this process serves."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self._note = journal.served.put

    def done(self, call_id: int) -> None:
        """See `wire.ServerEnd.done`."""
        self._journal.done.put((call_id, time_ns()))

    def note_open_calls(self, began_ns: int, began_before_ns: int) -> None:
        """Note the calls that are being served and began in this span of time."""
        for thread in serving_threads():
            serving = thread.serving
            if serving is not None and began_ns <= serving[1] < began_before_ns:
                self._journal.served.put((serving[0], thread.id, serving[1], 0, b"", b"", NOTHING))


class JournaledClient(Client):
    """Records the calls that this process issues, also those to ranks that record nothing.

    A call is noted when it has ended. Calls under way are noted, once, when they are as old as
    WATCH_S: no call costs more than one record, but long ones, and a process that is killed leaves
    all calls but the youngest.
    """

    def __init__(
        self, rank: int, journal: Journal, server: JournaledServer, reads: Mapping[str, bool]
    ) -> None:
        """`reads` tells of every server, by its RPC name, whether it can read our requests."""
        super().__init__(rank)
        self._journal = journal
        self._server = server
        self._reads = reads
        self._targets: dict[tuple[str, str, str, int, str], int] = {}
        self._ended: list[tuple[OpenCall, int, str, str]] = []
        self._noted_before_ns = 0
        self.is_cut = False
        """Whether it made more calls than are recorded, or than the disk has room for."""

    def call_python(
        self,
        target: CallTarget,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Future[Any]:
        """See `ClientHooks.call_python`."""
        if self._reads[target.server]:
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
        return sent if server is None or self._reads[server] else (func, args, kwargs)

    def ended(self, call_id: int, end_ns: int, status: str, error: str) -> None:
        """A call has ended."""
        if (call := self._open.pop(call_id, None)) is not None:
            call.future = None  # do not keep the value alive
            self._ended.append((call, end_ns, status, error))

    def note_ended_calls(self) -> None:
        """Note the calls that have ended until now; one thread at a time."""
        count = len(self._ended)
        for call, end_ns, status, error in self._ended[:count]:
            self._note(call, _STATUS_NUMBERS[status], error, end_ns)
        del self._ended[:count]

    def note_open_calls(self, began_before_ns: int) -> None:
        """Note the calls under way of both ends that began before this time, and were not noted."""
        since_ns, self._noted_before_ns = self._noted_before_ns, began_before_ns
        for call in list(self._open.values()):
            if since_ns <= call.start_ns < began_before_ns and call.body:
                self._note(call, _STATUS_NUMBERS["unfinished"], "", NOTHING)
        self._server.note_open_calls(since_ns, began_before_ns)

    def _look(self) -> None:
        super()._look()
        self.note_open_calls(time_ns() - round(WATCH_S * 1e9))
        is_full = self._journal.calls.is_full or self._journal.served.is_full
        if is_full or len(self._counts) > MOST_CALLS:
            self.is_cut, self.is_issuing = True, False

    def _note_sent(self, call: OpenCall) -> None:
        """Nothing yet: see the class."""

    def _forget(self, call: OpenCall) -> None:
        """It was not noted."""

    def _note(self, call: OpenCall, status: int, error: str, end_ns: int) -> None:
        target = call.target
        key = (target.kind, target.function, target.server, target.server_rank, call.body)
        text = self._targets.get(key)
        if text is None:
            text = self._targets[key] = self._journal.text(json.dumps(key))
        parent = NOTHING if call.parent is None else call.parent
        problem = self._journal.text(error) if error else NOTHING
        self._journal.calls.put(
            (call.call_id, text, call.thread, parent, call.start_ns, call.issued_ns, status,
             problem, end_ns)
        )  # fmt: skip
