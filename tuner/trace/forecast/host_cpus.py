"""The logical CPUs of a host in a replay: ready threads get equal shares of them."""

from typing import Generic, TypeVar

Thread = TypeVar("Thread")


class HostCpus(Generic[Thread]):
    """Those of a host. Its clock is the time that a thread which is always ready has been given."""

    __slots__ = ("clock", "cpus", "polling", "ready", "since", "version")

    def __init__(self, cpus: float, polling: float) -> None:
        """`polling`: how many threads are always ready."""
        self.cpus, self.polling = cpus, polling
        self.ready: list[tuple[float, int, Thread]] = []
        self.clock = self.since = 0.0
        self.version = 0

    @property
    def rate(self) -> float:
        """How much of a CPU each ready thread gets."""
        wanted = len(self.ready) + self.polling
        return 1.0 if wanted <= self.cpus else self.cpus / wanted

    def advance(self, now: float) -> None:
        """Let its clock go on until now."""
        self.clock += (now - self.since) * self.rate
        self.since = now
