"""An RPC program of three ranks, as a user would write it; rank 0 profiles one scenario at a time.

`python -m tests.trace.record.program FOLDER` writes `SCENARIO.json`, a trace, for most of them, and
`facts.json`: what each scenario returned, or the traceback of its error.
"""

import multiprocessing
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import msgspec
import torch
import torch.distributed.rpc as rpc

from tests.trace.record import call_scenarios, edge_scenarios, rank_control, tools
from tests.trace.record.tools import NAMES, THREADS, Facts, everywhere

SCENARIOS = (
    edge_scenarios.a_rank_without_the_package,
    call_scenarios.every_kind_of_call,
    call_scenarios.a_script_module_comes_back,
    call_scenarios.calls_that_fail,
    call_scenarios.calls_of_other_ranks,
    call_scenarios.places_of_calls,
    edge_scenarios.calls_at_the_edges,
    edge_scenarios.profiles_in_profiles,
    edge_scenarios.a_pause,
    edge_scenarios.a_profiler_of_the_user,
    edge_scenarios.a_profiler_in_another_thread,
    edge_scenarios.profilers_in_the_block,
    call_scenarios.gradients_through_rpc,
    edge_scenarios.blocks_that_raise,
    edge_scenarios.hammered,
    edge_scenarios.clocks_that_differ,
    edge_scenarios.eight_naps,
    edge_scenarios.known_work,
)


def run_scenarios() -> None:
    """Run each, even if the one before failed."""
    facts: Facts = {}
    for scenario in (*SCENARIOS, edge_scenarios.the_end_of_rpc):
        name = scenario.__name__
        try:
            facts[name] = scenario()
        except Exception:
            facts[name] = {"error": traceback.format_exc()}
        if scenario is not edge_scenarios.the_end_of_rpc:
            facts[name].setdefault("left", everywhere(rank_control.left_behind))
        (tools.folder / "facts.json").write_bytes(msgspec.json.encode(facts))


def run_rank(rank: int, folder: Path) -> None:
    """Run one rank to its end."""
    rank_control.leave_with_parent()
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
            rpc_timeout=60,
            # Three processes that busy-poll would leave no time on two CPUs for anything else.
            _transports=["uv"],
        ),
    )
    if rank == 0:
        run_scenarios()
    else:
        rank_control.follow_orders()
        with suppress(RuntimeError):
            rpc.shutdown()


def main(folder: Path) -> None:
    """Run all ranks; the facts tell what failed in rank 0."""
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=run_rank, args=(rank, folder)) for rank in range(len(NAMES))]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()


if __name__ == "__main__":
    # Functions travel by name, and so must belong to the module, not to __main__.
    from tests.trace.record import program

    program.main(Path(sys.argv[1]))
