import pytest

from tests.fakes import FakeLauncher
from tests.world.launcher_contract import LauncherContract


class TestFakeLauncher(LauncherContract):
    @pytest.fixture
    def launcher(self) -> FakeLauncher:
        return FakeLauncher(
            others_cpus=lambda number: 0.0,
            fails=lambda config, world: (
                "init-failed" if config.for_role("server").get("transports") == ("ibv",) else None
            ),
        )
