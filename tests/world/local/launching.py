"""A launcher that the tests of a module share: its forkserver imports torch once."""

from collections.abc import Iterator

import pytest

from tuner.world.local import live_world
from tuner.world.local.launcher import LocalLauncher


@pytest.fixture(scope="module")
def launcher() -> Iterator[LocalLauncher]:
    """Worlds that last a fraction of a second are probed early."""
    with pytest.MonkeyPatch.context() as patch, LocalLauncher() as running:
        patch.setattr(live_world, "PROBE_AFTER_S", 0.5)
        patch.setattr(live_world, "PROBE_EVERY_S", 0.2)
        yield running
