"""Which launcher runs what."""

from collections.abc import Callable

from tuner.plan.draft import PlanDraft
from tuner.world.command.launcher import CommandLauncher
from tuner.world.launcher import Launcher
from tuner.world.local.launcher import LocalLauncher


def workload_launcher() -> LocalLauncher:
    """What runs workloads where nobody says otherwise: processes on this machine."""
    return LocalLauncher()


def launcher_for(
    draft: PlanDraft, *, tell: Callable[[str], None], show: Callable[[bytes], None] | None
) -> Launcher:
    """What runs the worlds of a plan where nobody says otherwise.

    Args:
        draft: The plan.
        tell: Hears what a person should know of how a program is run, a sentence each.
        show: Takes what a program prints, as it comes; None: nobody does.
    """
    return workload_launcher() if draft.program is None else CommandLauncher(tell, show)
