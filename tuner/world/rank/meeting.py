"""Where the ranks of several hosts meet: a store in rank 0, which listens on one address alone."""

import socket
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.rendezvous import register_rendezvous_handler

from tuner.world.rank.task import MEETING

_MEET = timedelta(seconds=60)
"""How long rank 0 may take to be there."""


def enable_meeting(rank: int, ranks: int) -> None:
    """Let `init_rpc` understand `rpc-tuner://ADDRESS:PORT`.

    PyTorch's own `tcp://` listens on every address of the host: whoever can reach it could ask
    the ranks to call somebody else.
    """

    def meet(url: str, **_: object) -> Iterator[tuple[TCPStore, int, int]]:
        place = urlsplit(url)
        assert place.hostname is not None
        assert place.port is not None
        descriptor = _listen(place.hostname, place.port) if rank == 0 else None
        store = TCPStore(
            place.hostname,
            place.port,
            is_master=rank == 0,
            timeout=_MEET,
            wait_for_workers=False,
            master_listen_fd=descriptor,
        )
        yield store, rank, ranks

    register_rendezvous_handler(MEETING, meet)  # type: ignore[no-untyped-call]


def _listen(address: str, port: int) -> int:
    listening = socket.create_server((address, port))
    return listening.detach()
