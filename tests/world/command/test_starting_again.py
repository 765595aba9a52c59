"""Programs that shut RPC down and start it again: all of it is measured."""

import pytest

from tests.programs.running import free_port
from tests.world.command.launching import PROGRAMS, PYTHON, launched

pytestmark = [pytest.mark.world, pytest.mark.thorough]


def test_all_of_it_counts_and_nothing_in_between() -> None:
    command = [PYTHON, str(PROGRAMS / "starts_again.py"), free_port(), "3"]
    with launched(command, metric="calls made=calls: ([0-9]+)") as running:
        assert running.spec.calls == (30, 30)
        outcome = running.measured()
    assert [rank.name for rank in running.spec.ranks] == ["node0", "node1"]
    assert [rank.name for rank in outcome.ranks] == ["node0", "node1"]
    assert outcome.program is not None
    assert outcome.program.calls == outcome.program.metric == 30
    # Three times ten naps of 20 ms; between them 0.3 s each.
    assert 0.6 < outcome.wall_s < outcome.world_s - 0.6


def test_a_window_goes_on_while_rpc_is_started_again() -> None:
    command = [PYTHON, str(PROGRAMS / "starts_again.py"), free_port(), "0"]
    with launched(command, window="2s", warm_up="0.2s", deadline="60s") as running:
        outcome = running.measured()
    assert [rank.name for rank in outcome.ranks] == ["node0", "node1"]
    assert outcome.program is not None
    # Ten calls take 0.2 s at least, and then none is made for 0.3 s.
    assert 0 < outcome.program.calls <= 20 * outcome.wall_s + 20
