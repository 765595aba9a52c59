"""A person's own RPC program of three ranks, profiled by rank 0 in one scenario after another.

`python -m tests.trace.record.program FOLDER` leaves `SCENARIO.json`, a trace, for most of them, and
`facts.json`: what each scenario saw, or the traceback of what it died of.
"""

import multiprocessing
import os
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

import orjson
import torch
import torch.distributed.rpc as rpc

from tests.trace.record import call_scenarios, edge_scenarios, served, tools
from tests.trace.record.tools import NAMES, THREADS, Facts, everywhere

SCENARIOS = (
    edge_scenarios.before_the_tuner_is_there,
    call_scenarios.every_kind_of_call,
    call_scenarios.a_script_module_comes_back,
    call_scenarios.calls_that_fail,
    call_scenarios.calls_of_other_ranks,
    call_scenarios.places_of_calls,
    edge_scenarios.calls_at_the_edges,
    edge_scenarios.profiles_in_profiles,
    edge_scenarios.a_pause,
    edge_scenarios.profiler_of_a_person,
    edge_scenarios.profilers_in_the_block,
    call_scenarios.gradients_through_rpc,
    edge_scenarios.blocks_that_raise,
    edge_scenarios.hammered,
    edge_scenarios.clocks_that_differ,
    edge_scenarios.eight_naps,
    edge_scenarios.known_work,
)


def run_scenarios() -> None:
    """Run each, whatever became of the one before."""
    facts: Facts = {}
    for scenario in (*SCENARIOS, edge_scenarios.the_end_of_rpc):
        began = time.monotonic()
        name = scenario.__name__
        try:
            facts[name] = scenario()
        except Exception:
            facts[name] = {"died": traceback.format_exc()}
        if scenario is not edge_scenarios.the_end_of_rpc:
            facts[name].setdefault("left", everywhere(served.left_behind))
        facts[name]["took_s"] = time.monotonic() - began
        (tools.folder / "facts.json").write_bytes(orjson.dumps(facts))


def run_rank(rank: int, folder: Path) -> None:
    """The life of one rank."""
    tools.folder = folder
    torch.set_num_threads(1)
    os.environ.update(TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    if rank == 0:
        call_scenarios.define_what_only_this_rank_has()
    rpc.init_rpc(  # type: ignore[no-untyped-call]
        NAMES[rank],
        rank=rank,
        world_size=len(NAMES),
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            num_worker_threads=THREADS,
            init_method=f"file://{folder / 'store'}",
            rpc_timeout=20,
            # Three processes that busy-poll would leave two cores no time for anything else.
            _transports=["uv"],
        ),
    )
    if rank == 0:
        run_scenarios()
    else:
        served.follow_orders()
        with suppress(RuntimeError):
            rpc.shutdown()


def main(folder: Path) -> None:
    """Run all ranks; rank 0's failures are told in the facts."""
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=_begin, args=(rank, folder)) for rank in range(len(NAMES))]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()


def _begin(rank: int, folder: Path) -> None:
    served.leave_with_parent()
    run_rank(rank, folder)


if __name__ == "__main__":
    # Its functions travel by name: they must be those of the module, not of __main__.
    from tests.trace.record import program

    program.main(Path(sys.argv[1]))
