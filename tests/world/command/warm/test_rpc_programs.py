"""Programs that use RPC: warm, their ranks report what they report cold, and cost far less."""

import os
import re
import resource
import tempfile
from pathlib import Path

import pytest

from tests.programs.running import free_port
from tests.world.command.warm.starting_both import PYTHON, Ended, run_to_end
from tuner.plan.config import Config
from tuner.world.command.order import HookOrder
from tuner.world.command.program_commands import ColdStarter, Starter
from tuner.world.command.reports import ProgramReport, read_reports
from tuner.world.command.warm.warm_starting import (
    Learnt,
    PythonCommand,
    WarmStarter,
    learn,
    recognise,
)

ROOT = Path(__file__).parents[4]
PROGRAMS = ROOT / "tests" / "programs"
_OF_TORCH = re.compile(r"\[[IWE]\d{4} ")
CONFIG = Config.from_json({"*": {"num_worker_threads": 4}, "agent": {"num_worker_threads": 2}})

pytestmark = pytest.mark.world


def run(starter: Starter, *, is_first: bool = False) -> tuple[Ended, ProgramReport, Learnt]:
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder)
        order = HookOrder(config=CONFIG, reports=reports, say=True, learn=is_first)
        ended = run_to_end(starter, order.environment(environment()))
        return ended, read_reports(reports), learn(reports)


def environment() -> dict[str, str]:
    return {**os.environ, "MASTER_PORT": str(free_port())}


def told(ended: Ended, report: ProgramReport) -> object:
    """What may not differ from one run to the next."""
    ranks = [
        (rank.name, rank.rank, rank.world_size, rank.role, rank.calls,
         rank.options["num_worker_threads"], rank.options["rpc_timeout"])
        for rank in report.ranks
    ]  # fmt: skip
    # How often torch warns while ranks wait for each other depends on the moment.
    printed = "\n".join(line for line in ended.err.splitlines() if not _OF_TORCH.match(line))
    lines = sorted(re.sub(r"\[[^]]*\]|\d{4,}", "", printed).splitlines())
    assert report.rpc_active_s is not None
    return ended.code, ended.out, lines, ranks, report.processes, report.problems


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    "program",
    [
        "spawn_env.py 3 2",
        *(
            pytest.param(p, marks=pytest.mark.thorough)
            for p in ("own_options.py PORT", "forked.py")
        ),
    ],
)
def test_ranks_report_the_same(program: str) -> None:
    arguments = program.replace("PORT", str(free_port())).split()
    command = [PYTHON, "-W", "ignore", *arguments]
    assert isinstance(recognise(command, os.environ, PROGRAMS), PythonCommand)
    before_s = cpu_s()
    ended, report, learnt = run(ColdStarter(command, PROGRAMS), is_first=True)
    cold_s = cpu_s() - before_s
    first = told(ended, report)
    order = HookOrder(config=CONFIG, reports=Path.cwd())
    before_s = cpu_s()
    with WarmStarter(command, order.environment(environment()), PROGRAMS, learnt) as starter:
        assert starter.left_out == {}
        for _ in range(4):
            assert told(*run(starter)[:2]) == first
    # The server, with its one import of everything, and all four runs.
    assert cpu_s() - before_s < 3 * cold_s
