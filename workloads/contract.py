"""The base class of all workloads, and what a workload knows of its world."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from workloads.options import read_options


class WorkloadError(Exception):
    """A workload cannot be used as it is named or given; `problems` lists all that is wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        """All that is wrong, each as a sentence."""
        super().__init__("; ".join(problems))


@dataclass(frozen=True)
class Rank:
    """One process of a world: its RPC name and its role."""

    name: str
    """Its RPC name, which no other rank of the world has."""
    role: str
    """What it does; a configuration may have options of its own for each role."""


@dataclass(frozen=True)
class World:
    """The world as one of its processes sees it."""

    rank: int
    """This process's rank, from 0."""
    ranks: tuple[Rank, ...]
    """All ranks of the world, in the order of their numbers."""
    seed: int
    """From the plan's seed; the same for all configurations of a block. Python's and torch's
    generators have been seeded with it and the rank."""

    @property
    def name(self) -> str:
        """This process's RPC name."""
        return self.ranks[self.rank].name

    @property
    def role(self) -> str:
        """This process's role."""
        return self.ranks[self.rank].role

    def names(self, role: str) -> tuple[str, ...]:
        """The RPC names of the processes of `role`, in rank order."""
        return tuple(rank.name for rank in self.ranks if rank.role == role)


class Workload(ABC):
    """The program under test. Rank 0 drives; `step` may keep what `check` needs on `self`."""

    intra_op_threads: ClassVar[int] = 1
    """`torch.set_num_threads` in every process, unless a study tunes it."""

    def __init__(self, /, **options: object) -> None:
        """Set the given options. Raises WorkloadError, which names every unknown or bad one."""
        values, mistakes = read_options(type(self), options)
        if mistakes:
            raise WorkloadError(mistakes)
        for name, value in values.items():
            setattr(self, name, value)
        if problems := self.problems():
            raise WorkloadError(problems)

    def problems(self) -> Sequence[str]:
        """What is wrong with the options taken together, or is missing here, in sentences.

        It is asked before any process of a world starts.
        """
        return ()

    @abstractmethod
    def ranks(self) -> Sequence[Rank]:
        """The processes of a world, in rank order."""

    def setup(self, world: World) -> None:
        """Runs in every process, after `init_rpc`."""
        del world

    @abstractmethod
    def step(self, world: World) -> None:
        """Runs in rank 0: the timed unit."""

    def check(self, world: World) -> None:
        """Runs in rank 0, untimed: raise if the last step's result is wrong."""
        del world

    def teardown(self, world: World) -> None:
        """Runs in every process, before shutdown."""
        del world
