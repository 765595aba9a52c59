"""Stand-ins for what a program's RPC calls: its rendezvous, and what shows exceptions.

Standard library only, as `programs`.
"""

import functools
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import urlsplit

from tuner.process_knobs import number_in
from tuner.torch_private.exceptions import error_text, without_our_frames

_MOST_KINDS = 20
"""Errors that are counted each for itself."""


class Distributed:
    """`torch.distributed` as RPC sees it: a rendezvous is reported before it may hang."""

    def __init__(
        self, distributed: Any, meeting: Callable[[str, int, int], AbstractContextManager[None]]
    ) -> None:
        """`meeting` is the context of a rendezvous, by its address, rank and world size."""
        self._distributed = distributed
        self._meeting = meeting

    def __repr__(self) -> str:
        return repr(self._distributed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._distributed, name)

    def rendezvous(
        self, url: str, rank: int = -1, world_size: int = -1, **kwargs: Any
    ) -> Iterator[Any]:
        """See `torch.distributed.rendezvous`."""
        try:
            with self._meeting(url, rank, world_size):
                yield from self._distributed.rendezvous(url, rank, world_size, **kwargs)
        except BaseException as error:
            without_our_frames(error)
            raise


def no_listener(url: str) -> bool:
    """Whether every rank takes torchrun's agent to listen there, and it listens elsewhere."""
    return (
        os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        and url.startswith("tcp://")
        and urlsplit(url).port != number_in("MASTER_PORT", 0)
    )


class RaisedErrors:
    """Reports what was raised and may be handled, as it is shown.

    At most once a second, and what is raised again and again more and more seldom, so that the
    reports of a long run stay short.
    """

    def __init__(self, report: Callable[..., None], name: Callable[[], str]) -> None:
        """`name` gives the RPC name of this process; empty while it has none."""
        self._report = report
        self._name = name
        self._reporting = threading.Lock()
        """Nobody waits for it: what is raised meanwhile comes within the same second."""
        self._reported_s = -math.inf
        self._counts: Counter[str] = Counter()
        """How often something was raised, by what it was."""

    def reporting(self, show: Callable[..., object], where: str) -> Callable[..., None]:
        """`show`, called while an exception is handled, with a report before.

        In `where` it was raised, `{name}` stands for the process.
        """

        @functools.wraps(show)
        def report_and_show(*args: Any, **kwargs: Any) -> None:
            error = sys.exc_info()[1]
            if error is not None and self._reporting.acquire(blocking=False):
                try:
                    self._note(error, where)
                finally:
                    self._reporting.release()
            show(*args, **kwargs)

        return report_and_show

    def _note(self, error: BaseException, where: str) -> None:
        if time.monotonic() - self._reported_s < 1.0:
            return
        self._reported_s = time.monotonic()
        place = where.format(name=self._name() or "a process that is no rank")
        text = error_text(error, f" (in {place})")
        kind = text if text in self._counts or len(self._counts) < _MOST_KINDS else ""
        self._counts[kind] += 1
        if self._counts[kind].bit_count() == 1:
            self._report("raised", error=text)
