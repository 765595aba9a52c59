"""Both ends of the calls of a process that writes what it records into its journal."""

import json
from collections.abc import Mapping
from time import time_ns

from tuner.trace.record.client import WATCH_S, Client, OpenCall
from tuner.trace.record.journal import MOST_CALLS, NOTHING, STATUSES, Journal
from tuner.trace.record.server import Server, Serving
from tuner.trace.record.threads import serving_threads, this_thread

_STATUS_NUMBERS = {status: number for number, status in enumerate(STATUSES)}


class JournaledServer(Server):
    """Records the calls that this process serves, as they happen."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal.served)
        self._journal = journal

    def done(self, call_id: int) -> None:
        """See `Server.done`."""
        self._journal.done.put(call_id, time_ns())

    def raised(self, call_id: int, error: str) -> None:
        """See `Server.raised`."""
        self._journal.raised.put(call_id, 1 + self._journal.error(error))

    def note_pickled(self) -> None:
        """Note the answers that took long to pickle, until now."""
        for call_id, pickled_ns in self.long_pickled():
            self._journal.answered.put(call_id, pickled_ns)

    def note_open_calls(self, began_ns: int, began_before_ns: int) -> None:
        """Note the calls that are being served and began in this span of time."""
        for thread in serving_threads():
            serving = Serving.on(thread)
            if serving is not None and began_ns <= serving.start_ns < began_before_ns:
                self._journal.served.put(
                    serving.call_id, thread.id, serving.start_ns, 0, b"", b"", NOTHING
                )


class JournaledClient(Client):
    """Records the calls that this process issues, also those to ranks that record nothing.

    Calls are noted every WATCH_S seconds: those that have ended since, and once those under way
    that are older. No call costs more than one record, but long ones. A process that is killed
    loses the calls that it issued in its last moment, and none that it served.
    """

    def __init__(
        self, rank: int, journal: Journal, server: JournaledServer, reads: Mapping[str, bool]
    ) -> None:
        """`reads` says of every server, by its RPC name, whether it can read our requests."""
        super().__init__(rank, reads)
        self._keep_sent, self._keep_ended = self._keep_ended, self._ended.append
        self._journal = journal
        self._server = server
        self._targets: dict[tuple[str, str, str, int, str], int] = {}
        self._noted_before_ns = 0
        self.is_cut = False
        """Whether it made more calls than are recorded, or than the disk has room for."""

    def note_ended_calls(self) -> None:
        """Note the calls that have ended until now: the watch, and once that has ended, `end`."""
        count = len(self._ended)
        for call in self._ended[:count]:
            self._note(call)
        del self._ended[:count]

    def noted(self, name: str, start_ns: int) -> None:
        """See `ClientHooks.noted`."""
        text = self._journal.text(name)
        self._journal.noted.put(text, this_thread().id, start_ns, time_ns())

    def note_open_calls(self, began_before_ns: int) -> None:
        """Note the calls under way of both ends that began before this time, and were not noted."""
        since_ns, self._noted_before_ns = self._noted_before_ns, began_before_ns
        for call in list(self._open.values()):
            if since_ns <= call.start_ns < began_before_ns:
                self._note(call)
        self._server.note_open_calls(since_ns, began_before_ns)

    def _look(self) -> None:
        super()._look()
        self.note_ended_calls()
        self._server.note_pickled()
        self.note_open_calls(time_ns() - round(WATCH_S * 1e9))
        if self._journal.is_full or len(self._counts) > MOST_CALLS:
            self.is_cut, self.is_issuing = True, False

    def _note(self, call: OpenCall) -> None:
        target, (end_ns, status, error) = call.target, call.end
        key = (target.kind, target.function, target.server, target.server_rank, call.body)
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
            _STATUS_NUMBERS[status],
            self._journal.error(error) if error else NOTHING,
            NOTHING if call.timeout_s is None else call.timeout_s,
            NOTHING if call.request_bytes is None else call.request_bytes,
            NOTHING if end_ns is None else end_ns,
        )
