"""A bounded sample of a series of unknown length: each element is as likely to be in it."""

import math
import random


class Reservoir:
    """Takes numbers one after the other, and keeps at most `most` of them (algorithm L).

    Up to `most` it keeps all. Beyond that most numbers cost one comparison.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[int, float]] = []
        # One of its own: a workload has seeded the other one for itself.
        self._random = random.Random(most)
        self._weight = 1.0
        self._next = 0
        """The number of the next one to keep."""
        self.count = 0
        """How many have come."""

    def add(self, value: float) -> None:
        """Take the next number."""
        if self.count == self._next:
            if len(self._kept) < self._most:
                self._kept.append((self.count, value))
            else:
                self._kept[self._random.randrange(self._most)] = (self.count, value)
            self._next += 1 if len(self._kept) < self._most else self._skip()
        self.count += 1

    def values(self) -> list[float]:
        """What is kept, in the order in which it came."""
        return [value for _, value in sorted(self._kept)]

    def _skip(self) -> int:
        """How far it is to the next one that is kept."""
        self._weight *= math.exp(math.log(1.0 - self._random.random()) / self._most)
        passed = math.log(1.0 - self._random.random()) / math.log1p(-self._weight)
        return 1 + math.floor(passed)
