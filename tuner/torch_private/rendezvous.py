"""The rendezvous of `init_rpc`: what a process reports before it waits there for the other ranks.

Standard library only, as `programs`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from tuner.torch_private.tracebacks import without_our_frames


class Distributed:
    """`torch.distributed` as RPC sees it: a rendezvous is reported before it may hang."""

    def __init__(
        self,
        distributed: ModuleType,
        before_rendezvous: Callable[[str, int, int], int],
        telling_of_failure: Callable[[str, int], AbstractContextManager[None]],
    ) -> None:
        self._distributed = distributed
        self._before_rendezvous = before_rendezvous
        self._telling_of_failure = telling_of_failure

    def __repr__(self) -> str:
        return repr(self._distributed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._distributed, name)

    def rendezvous(
        self, url: str, rank: int = -1, world_size: int = -1, **kwargs: Any
    ) -> Iterator[Any]:
        """See `torch.distributed.rendezvous`."""
        known = self._before_rendezvous(url, rank, world_size)
        try:
            with self._telling_of_failure(f"rank {known}", known):
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


def number_in(variable: str, otherwise: int) -> int:
    """The number that an environment variable has; `otherwise` if it has none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else otherwise
