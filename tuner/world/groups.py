"""Groups of CPUs or of hosts: several launchers, each of which measures whole blocks."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from tuner.plan.draft import PlanDraft
from tuner.plan.subject import Subject
from tuner.world.environment import Environment, GroupFacts
from tuner.world.launcher import Enough, Launcher, WorldOrder
from tuner.world.measurement import Failure, Measurement


@runtime_checkable
class Stoppable(Protocol):
    """A launcher whose world can be ended from another thread."""

    def stop(self) -> None:
        """End the world that runs, if any: what it yields then means nothing."""


@runtime_checkable
class Fingerprinted(Protocol):
    """A launcher that knows what it runs its worlds on."""

    def facts(self) -> GroupFacts:
        """What the worlds run on; asked once something is known of the workload."""


class GroupedLauncher:
    """Several launchers, one per group. Used as one launcher, it is that of the first group.

    Args:
        members: A launcher per group. They share nothing, since they run worlds at the same time.
    """

    def __init__(self, members: Sequence[Launcher]) -> None:
        self.members = tuple(members)
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as entering:
            for member in self.members:
                entering.enter_context(member)
            self._open = entering.pop_all()
        return self

    def __exit__(self, *ending: object) -> None:
        self._open.close()

    @property
    def own_network(self) -> bool:
        """See `Launcher.own_network`: of all groups."""
        return all(each.own_network for each in self.members)

    def subject_of(
        self, draft: PlanDraft, failure_folder: Path | None = None, enough: Enough | None = None
    ) -> Subject:
        """See `Launcher.subject_of`; every group is asked, as each may have hosts of its own."""
        first, *others = self.members
        said = [True]

        def asked(subject: Subject, run: Measurement, least_s: float) -> bool:
            said.append(enough is None or enough(subject, run, least_s))
            return said[-1]

        subject = first.subject_of(draft, failure_folder, asked)
        for each in others if said[-1] else ():
            each.subject_of(draft, failure_folder)
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
    facts = [each.facts() for each in launcher.members if isinstance(each, Fingerprinted)]
    return here.model_copy(update={"groups": tuple(facts)})
