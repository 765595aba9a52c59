"""What runs of programs count of their calls: by function, and how many of them fail."""

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.rpc import internal

import tuner
from testing.known import known
from testing.launching import PROGRAMS, PYTHON, launched
from tests.searching.tuning import Listening
from tuner.torch_private.call_outcomes import CallOutcomes, function_in
from tuner.torch_private.private_names import SENDERS

FAILING = """
import os, time
import torch, torch.distributed.rpc as rpc, torch.multiprocessing as mp

def bad():
    raise ValueError("bad")

def good(value):
    return value

def slow():
    time.sleep(0.5)
    return 1

@rpc.functions.async_execution
def chained(value):
    return rpc.rpc_async("client", good, args=(value,))

def run(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="41055")
    rpc.init_rpc(["client", "server"][rank], rank=rank, world_size=2)
    if rank == 0:
        for i in range(3):
            try:
                rpc.rpc_sync("server", bad)
            except ValueError:
                pass
        for i in range(5):
            rpc.rpc_sync("server", good, args=(torch.ones(3),))
        rpc.rpc_sync("client", good, args=(1,))
        rpc.rpc_sync("server", torch.add, args=(torch.ones(3), 1))
        fetched = rpc.remote("server", good, args=(torch.ones(3),))
        fetched.to_here(), fetched.to_here()
        late = rpc.remote("server", slow)
        try:
            late.to_here(0.1)
        except RuntimeError:
            pass
        late.to_here()
        for i in range(6):
            rpc.rpc_sync("server", chained, args=(i,))
        [rpc.rpc_async("server", slow, timeout=0.1) for _ in range(2)]
    rpc.shutdown()

if __name__ == "__main__":
    mp.start_processes(run, start_method="fork", nprocs=2)
"""


class Served:
    def method(self) -> None: ...


def served() -> None: ...


@pytest.mark.parametrize(
    ("called", "name"),
    [
        (served, "served"),
        (Served, "Served"),
        (Served().method, "a method"),
        (functools.partial(served), "a partial function"),
    ],
)
def test_the_function_is_read_from_what_is_sent(called: Any, name: str) -> None:
    udf = internal.PythonUDF(called, (torch.ones(2), "x" * 5000), {})
    pickled, _ = internal.serialize(udf)  # type: ignore[no-untyped-call]
    assert function_in(pickled) == name
    assert function_in("aten::add") == "aten::add"
    assert function_in(b"") == ""


def test_what_is_under_way_has_not_failed() -> None:
    outcomes, plain = CallOutcomes(), SENDERS["_invoke_rpc_python_udf"]
    for _ in range(5):
        outcomes.issued(plain, "work", is_own=False)
    outcomes.issued(plain, "_gather_to_leader", is_own=True)
    assert outcomes.facts(lambda: 6) == {"functions": [["work", 5]], "failed": 0}
    assert outcomes.facts(lambda: 2) == {"functions": [["work", 5]], "failed": 4}
    outcomes.begin()
    assert outcomes.facts(lambda: 0) == {"functions": [], "failed": 0}


@pytest.mark.world
def test_each_call_that_fails_is_counted_and_no_other(tmp_path: Path) -> None:
    program = tmp_path / "failing.py"
    program.write_text(FAILING)
    with launched([PYTHON, "-W", "ignore", str(program)], window="off") as running:
        found = known(running.measured().program)
    made = {"bad": 3, "good": 13, "aten::add": 1, "slow": 3, "chained": 6}
    assert found.functions == made
    assert found.calls == sum(made.values())
    assert found.failed == 3 + 1 + 2


@pytest.mark.world
def test_calls_that_time_out_are_counted_by_configuration() -> None:
    command = [PYTHON, "-W", "ignore", str(PROGRAMS / "cases/skips_failed.py")]
    with launched(command, window="off") as running:
        few = known(running.measured(config={"*": {"num_worker_threads": 1}}).program)
        as_it_is = known(running.measured().program)
    assert as_it_is.failed == 0
    assert few.functions == as_it_is.functions == {"work": 24}
    assert 18 <= known(few.failed) <= 24


@pytest.mark.world
def test_a_program_that_polls_is_compared_by_the_time_of_its_runs() -> None:
    command = [PYTHON, "-W", "ignore", str(PROGRAMS / "cases/polls.py")]
    with launched(command, window="off") as running:
        spec = running.spec
    assert spec.varies
    assert spec.work == ("push",)
    assert spec.objective_name == "rpc_active_s"


@pytest.mark.world
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "space"),
    [
        ("skips_failed", {"num_worker_threads": [1, 16]}),
        ("skips_failed", {"rpc_timeout": [0.15, 60]}),
        ("polls", {"cpu_binding": ["none", "equal"]}),
    ],
)
def test_less_work_is_no_gain(program: str, space: dict[str, Any], tmp_path: Path) -> None:
    command, heard = [PYTHON, "-W", "ignore", str(PROGRAMS / f"cases/{program}.py")], Listening()
    result = tuner.tune(
        program=command, space=space, budget="60s", out=tmp_path / "study", observer=heard
    )
    assert result.verdict in ("keep-baseline", "undecided")
    assert result.best == result.baseline
    assert result.objective.name == "rpc_active_s"
