"""Both ends of the calls of a process that writes what it records into its journal."""

import json
from collections.abc import Mapping
from time import time_ns
from typing import Any

from torch.futures import Future

from tuner.trace.record.client import WATCH_S, Client, OpenCall
from tuner.trace.record.journal import MOST_CALLS, NOTHING, STATUSES, Journal
from tuner.trace.record.server import Server
from tuner.trace.record.threads import serving_threads, this_thread

_STATUS_NUMBERS = {status: number for number, status in enumerate(STATUSES)}


class JournaledServer(Server):
    """Records the calls that this process serves."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self.note = journal.served.put

    def done(self, call_id: int) -> None:
        """See `Server.done`."""
        self._journal.done.put((call_id, time_ns()))

    def answered(self, call_id: int, time_ns: int) -> None:
        """See `wire.ServerEnd.answered`."""
        self._journal.answered.put((call_id, time_ns))

    def raised(self, call_id: int, error: str) -> None:
        """See `Server.raised`."""
        self._journal.raised.put((call_id, 1 + self._journal.text(error)))

    def note_open_calls(self, began_ns: int, began_before_ns: int) -> None:
        """Note the calls that are being served and began in this span of time."""
        for thread in serving_threads():
            serving = thread.serving
            if serving is not None and began_ns <= serving.start_ns < began_before_ns:
                self._journal.served.put(
                    (serving.call_id, thread.id, serving.start_ns, 0, b"", b"", NOTHING)
                )


class JournaledClient(Client):
    """Records the calls that this process issues, also those to ranks that record nothing.

    A call is noted when it has ended. Calls under way are noted, once, when they are as old as
    WATCH_S: few calls cost more than one record, and of a process that is killed, only calls that
    had just begun are lost.
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
        self._noted_before_ns = 0
        self.is_cut = False
        """Whether it made more calls than are recorded, or than the disk has room for."""

    def _reads_marks(self, server: str) -> bool:
        return self._reads[server]

    def sent(self, call: OpenCall, future: Future[Any]) -> None:
        """See `ClientHooks.sent`."""
        super().sent(call, future)
        if call.end[0] is not None:
            self._note_ended(call)  # it was noted without the time at which it was issued

    def noted(self, name: str, start_ns: int) -> None:
        """See `ClientHooks.noted`."""
        text = self._journal.text(name)
        self._journal.noted.put((text, this_thread().id, start_ns, time_ns()))

    def note_open_calls(self, began_before_ns: int) -> None:
        """Note the calls under way of both ends that began before this time, and were not noted."""
        since_ns, self._noted_before_ns = self._noted_before_ns, began_before_ns
        for call in list(self._open.values()):
            if since_ns <= call.start_ns < began_before_ns:
                self._note_ended(call)
        self._server.note_open_calls(since_ns, began_before_ns)

    def _look(self) -> None:
        super()._look()
        self.note_open_calls(time_ns() - round(WATCH_S * 1e9))
        if self._journal.is_full or len(self._counts) > MOST_CALLS:
            self.is_cut, self.is_issuing = True, False

    def _note_sent(self, call: OpenCall) -> None:
        """Nothing yet: see the class."""

    def _forget(self, call: OpenCall) -> None:
        """It was not noted."""

    def _note_ended(self, call: OpenCall) -> None:
        """Note a call that has ended, or is under way."""
        target, (end_ns, status, error) = call.target, call.end
        key = (target.kind, target.function, target.server, target.server_rank, call.body)
        text = self._targets.get(key)
        if text is None:
            text = self._targets[key] = self._journal.text(json.dumps(key))
        self._journal.calls.put(
            (
                call.call_id,
                text,
                call.thread,
                NOTHING if call.parent is None else call.parent,
                call.start_ns,
                call.issued_ns,
                _STATUS_NUMBERS[status],
                self._journal.text(error) if error else NOTHING,
                NOTHING if call.timeout_s is None else call.timeout_s,
                NOTHING if call.request_bytes is None else call.request_bytes,
                NOTHING if end_ns is None else end_ns,
            )
        )
