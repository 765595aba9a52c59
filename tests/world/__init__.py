"""What fails in the contract of launchers shows its values."""

import pytest

pytest.register_assert_rewrite("tests.world.launcher_contract")
