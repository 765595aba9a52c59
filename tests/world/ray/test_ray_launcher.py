"""What the Ray launcher does with real worlds on one host."""

import pytest

from tests.world.launcher_contract import FailureContract, LauncherContract
from tuner.world.ray.ray_launcher import RayLauncher

pytestmark = pytest.mark.world


class TestRayLauncher(LauncherContract, FailureContract):
    @pytest.fixture
    def launcher(self, launcher: RayLauncher) -> RayLauncher:
        return launcher
