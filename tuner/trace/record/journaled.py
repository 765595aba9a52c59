"""Both ends of the calls of a process that writes what it records into its journal."""

import json
from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any

from torch.futures import Future

from tuner.torch_private.calls import CallTarget, python_request
from tuner.trace.record.client import Client, OpenCall, outcome
from tuner.trace.record.journal import MOST_CALLS, NEVER_SENT, NOTHING, STATUSES, Journal
from tuner.trace.record.server import Server

_STATUS_NUMBERS = {status: number for number, status in enumerate(STATUSES)}


class JournaledClient(Client):
    """Records the calls that this process issues, also those to ranks that record nothing."""

    def __init__(self, rank: int, journal: Journal, reads: Mapping[str, bool]) -> None:
        """`reads` tells of every server, by its RPC name, whether it can read our requests."""
        super().__init__(rank)
        self._journal = journal
        self._reads = reads
        self._targets: dict[tuple[str, str, str, int, str], int] = {}
        self._left = MOST_CALLS
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
            text = self._journal.text(error) if error else NOTHING
            number = _STATUS_NUMBERS[status]
            self._journal.calls.close(call.slot, call.issued_ns, number, text, end_ns)

    def _note_sent(self, call: OpenCall) -> None:
        target = call.target
        key = (target.kind, target.function, target.server, target.server_rank, call.body)
        text = self._targets.get(key)
        if text is None:
            text = self._targets[key] = self._journal.text(json.dumps(key))
        parent = NOTHING if call.parent is None else call.parent
        call.slot = self._journal.calls.open(call.call_id, text, call.thread, parent, call.start_ns)
        self._left -= 1
        if self._left <= 0 or call.slot == NOTHING:
            self.is_cut, self.is_issuing = True, False

    def _forget(self, call: OpenCall) -> None:
        self._journal.calls.close(call.slot, 0, NEVER_SENT, NOTHING, call.start_ns)


class JournaledServer(Server):
    """Records the calls that this process serves."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self._begin, self._end = journal.served.open, journal.served.close

    def done(self, call_id: int) -> None:
        """See `wire.ServerEnd.done`."""
        self._journal.done.open(call_id, time_ns())
