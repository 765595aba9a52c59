"""The contract of every launcher: say what a plan is for, run a world of it; their groups;
and what each rank of a world has to do."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from tuner.plan.config import Config
from tuner.plan.draft import PlanDraft
from tuner.plan.knobs import Value
from tuner.plan.objectives import Objective
from tuner.plan.program_request import ProgramRequest
from tuner.plan.program_spec import ProgramSpec, Subject
from tuner.plan.workload_spec import WorkloadSpec
from tuner.world.environment import Environment, GroupFacts
from tuner.world.measurement import Failure, Measurement

MEETING = "rpc-tuner"
"""The scheme of the addresses where ranks of several hosts meet; see `rank/run_rank.py`."""


@dataclass(frozen=True, kw_only=True)
class TraceOrder:
    """A trace to take of a world."""

    path: Path
    """Where it is written; absolute, since a workload may leave its working folder."""
    operators: bool
    """Whether to record operators too, which costs more."""
    is_needed: bool = True
    """Whether a world without a complete trace has failed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.path.absolute())


@dataclass(frozen=True, kw_only=True)
class WorldOrder:
    """One world to launch."""

    subject: Subject | ProgramRequest
    config: Config
    seed: int = 0
    steps: int | None = None
    """How many steps to time; None: as many as last `min_time_s`. A program is run as a whole."""
    min_time_s: float = 0.0
    """The least that the timed steps last, where `steps` is None."""
    deadline_s: float
    """A world that takes longer is ended, as a failure."""
    trace: TraceOrder | None = None
    """The trace to take of the steps, if any; `steps` must be given then."""
    failure_folder: Path | None = None
    """Where to keep what the ranks printed, and their stacks, if the world fails; absolute."""
    folder_called: str = ""
    """How messages name that folder, of a run before there is a study: there the evidence of a
    failure replaces that of an earlier one."""
    objective: Objective | None = None
    """What a run of a program must yield, or it has failed. None: it may yield anything."""

    def __post_init__(self) -> None:
        if self.failure_folder is not None:
            object.__setattr__(self, "failure_folder", self.failure_folder.absolute())


def listening_on(interface: str) -> dict[str, str]:
    """The environment in which RPC listens on this interface and on no other."""
    return {"TP_SOCKET_IFNAME": interface, "GLOO_SOCKET_IFNAME": interface}


LOOPBACK = listening_on("lo")
"""RPC runs any function it is sent: listening beyond loopback would be an open door."""


@dataclass(frozen=True, kw_only=True)
class RankTask:
    """What one process of a world has to do; it travels by pickle, between our own processes."""

    rank: int
    order: WorldOrder
    place: tuple[int, int]
    """Its place among the ranks of its host, from 0, and how many these are."""
    folder: Path
    """The working folder that the process starts in."""
    scratch: Path
    """The world's own folder: rendezvous file, captured output, stacks."""
    init_method: str | None = None
    """Where the ranks meet; None: at a file in `scratch`, for those of one host."""
    network: tuple[str, ...] = ()
    """The places of the network that this process joins; empty: it stays in the machine's."""
    environment: Mapping[str, str] = field(default_factory=lambda: LOOPBACK)
    """Variables for this process."""

    @property
    def spec(self) -> WorkloadSpec:
        """The workload."""
        assert isinstance(self.order.subject, WorkloadSpec), "subject_of took no program"
        return self.order.subject

    @property
    def name(self) -> str:
        """This rank's RPC name."""
        return self.spec.ranks[self.rank].name

    @property
    def values(self) -> Mapping[str, Value]:
        """This rank's part of the configuration, by knob; for others PyTorch's defaults hold."""
        return self.order.config.for_role(self.spec.ranks[self.rank].role)


def rank_tasks(order: WorldOrder, scratch: Path) -> list[RankTask]:
    """The task of each rank of the world, in rank order."""
    assert isinstance(order.subject, WorkloadSpec), "subject_of took no program"
    folder, count = Path.cwd(), len(order.subject.ranks)
    return [
        RankTask(rank=rank, order=order, place=(rank, count), folder=folder, scratch=scratch)
        for rank in range(count)
    ]


class Launcher(Protocol):
    """Launches worlds, one at a time; a context manager that leaves no rank behind."""

    @property
    def own_network(self) -> bool:
        """Whether the next world runs in a network that no other process reaches."""

    def subject_of(self, draft: PlanDraft) -> Subject:
        """Find out what a draft's workload or program is: import the one, or run the other.

        UsageError with every problem if it cannot be used as named or given; LauncherError if this
        launcher cannot find out."""

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """Run one world, until its last process is gone; a Failure if anything goes wrong in it.
        LauncherError if no world can be launched here at all."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *ending: Any) -> None: ...


class WorkloadLauncher(Launcher, Protocol):
    """A launcher that runs workloads."""

    def describe(self, reference: str, options: Mapping[str, object]) -> WorkloadSpec:
        """Import a workload, by its name, `package.module:Class` or `file.py:Class`, and fill in
        its options, from text too. Raises as `subject_of` does."""


class RunAsItIs(NamedTuple):
    """A run of a program as it is, and what the program is by it and those before."""

    subject: ProgramSpec
    run: Measurement | Failure | None  # None: it is known without one
    least_s: float  # how long another one takes at least
    warned: tuple[str, ...] = ()  # what PyTorch warned of in its own code, in any of them


@runtime_checkable
class InspectsPrograms(Protocol):
    """A launcher that runs programs."""

    def inspect(
        self, draft: PlanDraft, failure_folder: Path | None = None, trace: Path | None = None
    ) -> Iterator[RunAsItIs]:
        """Run a draft's program as it is, as often as that may show more; who has seen enough asks
        for no more.

        `failure_folder` is for the evidence of a program that fails, alone. Each run but a cold
        first one is traced to `trace`, if that can be. Raises as `Launcher.subject_of` does."""


@runtime_checkable
class ExpectsThreads(Protocol):
    """A launcher that makes itself ready for runs with other numbers of intra-op threads."""

    def expect_threads(self, numbers: Sequence[int]) -> None:
        """Begin with that for the first of these; it goes on until the next run, which waits."""


@runtime_checkable
class Stoppable(Protocol):
    """A launcher whose world can be ended from another thread."""

    def stop(self) -> None:
        """End the world that runs, if any; what it yields then means nothing."""


@runtime_checkable
class Fingerprinted(Protocol):
    """A launcher that knows what it runs its worlds on."""

    def facts(self) -> GroupFacts:
        """What the worlds run on; asked once something is known of the workload."""


class Together:
    """A context manager that enters others, one after the other, all of them or none."""

    def _parts(self) -> Iterable[AbstractContextManager[Any]]:
        """What to enter; the next is asked for once the one before is entered."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with ExitStack() as entering:
            for part in self._parts():
                entering.enter_context(part)
            self._entered = entering.pop_all()
        return self

    def __exit__(self, *ending: object) -> None:
        self._entered.close()


class GroupedLauncher(Together):
    """A launcher per group, which share nothing, since they run worlds at the same time. Used as
    one launcher, it is that of the first group."""

    def __init__(self, members: Sequence[Launcher]) -> None:
        self.members = tuple(members)

    def _parts(self) -> Iterable[AbstractContextManager[Any]]:
        return self.members

    @property
    def own_network(self) -> bool:
        """See `Launcher.own_network`: of all groups."""
        return all(member.own_network for member in self.members)

    def subject_of(self, draft: PlanDraft) -> Subject:
        """See `Launcher.subject_of`; every group is asked, as each may have hosts of its own."""
        subject, *_ = [member.subject_of(draft) for member in self.members]
        return subject

    def run(self, order: WorldOrder) -> Measurement | Failure:
        """See `Launcher.run`."""
        return self.members[0].run(order)


def members_of(launcher: Launcher) -> Sequence[Launcher]:
    """The launchers of the groups; the launcher itself where there is one."""
    return launcher.members if isinstance(launcher, GroupedLauncher) else (launcher,)


def environment_with(launcher: Launcher) -> Environment:
    """The environment of this process, and of the groups that a launcher has."""
    here = Environment.here().model_copy(update={"own_network": launcher.own_network})
    if not isinstance(launcher, GroupedLauncher):
        return here
    facts = [member.facts() for member in launcher.members if isinstance(member, Fingerprinted)]
    return here.model_copy(update={"groups": tuple(facts)})
