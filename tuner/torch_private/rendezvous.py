"""The rendezvous of `init_rpc`: what a process reports before it waits there for the other ranks.

Standard library only, as `programs`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from tuner.process_knobs import number_in
from tuner.torch_private.tracebacks import without_our_frames


class Distributed:
    """`torch.distributed` as RPC sees it: a rendezvous is reported before it may hang."""

    def __init__(
        self,
        distributed: ModuleType,
        meeting: Callable[[str, int, int], AbstractContextManager[None]],
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
                yield from self._distributed.rendezvous(
                    url, rank=rank, world_size=world_size, **kwargs
                )
        except BaseException as error:
            without_our_frames(error)
            raise


def nobody_listens(url: str) -> bool:
    """Whether every rank takes torchrun's agent to listen there, and it listens elsewhere."""
    has_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return (
        has_agent and url.startswith("tcp://") and urlsplit(url).port != number_in("MASTER_PORT", 0)
    )
