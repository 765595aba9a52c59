"""Launchers that the tests of a module share; the forkserver imports torch once for all of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tuner.world import live_world
from tuner.world.local.local_launcher import LocalLauncher


@contextmanager
def impatient_launcher(*, grace_s: float = live_world.GRACE_S) -> Iterator[LocalLauncher]:
    """A launcher that probes worlds early: those of tests last a fraction of a second.

    `grace_s` is the time that it leaves for the first cause of a failure to be heard of.
    """
    with pytest.MonkeyPatch.context() as patch, LocalLauncher() as running:
        patch.setattr(live_world, "PROBE_AFTER_S", 0.5)
        patch.setattr(live_world, "PROBE_EVERY_S", 0.2)
        patch.setattr(live_world, "GRACE_S", grace_s)
        yield running


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    with impatient_launcher() as running:
        yield running
