"""`tuner.load_rpc_options`: `recommended.json` as TensorPipeRpcBackendOptions, in a program.

torch and the standard library only: on a rank there may be nothing else.
"""

import os
import warnings
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import torch
from torch.distributed.rpc import TensorPipeRpcBackendOptions

from tuner.cpus import is_bound
from tuner.errors import UsageError
from tuner.machine import (
    BINDING_COMPARED,
    COMPARED,
    COMPARED_BOUND,
    machine_differences,
    this_machine,
)
from tuner.plan.knobs import INTRA_OP_THREADS, agent_options
from tuner.process_knobs import (
    CPU_BINDING,
    EQUAL,
    SWITCH_INTERVAL,
    ProcessKnobs,
    has_gil,
    number_in,
    place_on_host,
)
from tuner.recommended.document import ProcessValues, read_process_values
from tuner.text import command, plural
from tuner.torch_private.agent import tensorpipe_options


class EnvironmentWarning(UserWarning):
    """The configuration was measured with another machine, another torch, or other threads, or
    what it sets in a process cannot be set in this one."""


class ThreadsWarning(EnvironmentWarning):
    """The configuration was measured with another `torch.set_num_threads`."""


def load_rpc_options(
    path: str | PathLike[str],
    *,
    role: str | None = None,
    rank: int | None = None,
    world_size: int | None = None,
) -> TensorPipeRpcBackendOptions:
    """The recommended options, for the argument `rpc_backend_options` of `init_rpc`.

    Where the configuration has `switch_interval`, `intra_op_threads` or `cpu_binding=equal`, this
    process gets them now: call it before `init_rpc`, in each process. Binding keeps all threads of
    the process to the share of its rank, with no more intra-op threads than that has logical CPUs,
    and holds for ranks that have the machine to themselves. Threads that have computed before keep
    their number of intra-op threads, and so do libraries beside torch.

    Args:
        path: `recommended.json`, or an export to JSON or TOML.
        role: The role of this process in the workload; None where all roles have the same options.
        rank: The rank of this process, for `cpu_binding=equal` alone. Default: `RANK`, as torchrun
            sets it. All ranks are taken to be on this host, unless torchrun has started them on
            several (`LOCAL_RANK`, `LOCAL_WORLD_SIZE`, `GROUP_WORLD_SIZE`).
        world_size: How many ranks the world has. Default: `WORLD_SIZE`, as torchrun sets it.

    Returns:
        The `TensorPipeRpcBackendOptions`.

    Raises:
        UsageError: The file cannot be read or is damaged, or has no such role; or there is no such
            rank in a world of that size.

    Warns:
        EnvironmentWarning: The CPU model, the number of logical CPUs or torch differ from those of
            the measurement; where ranks are bound, also the number of NUMA nodes, or of threads per
            core. Or this process is not bound, or has not the switch interval: the warning says
            why, and what helps.
        ThreadsWarning: This process has another number of intra-op threads, and the configuration
            does not set them.
    """
    measured = read_process_values(Path(path))
    roles = _roles_like(measured, role, path)
    place = _place(rank, world_size) if measured.config.binds else None
    for message in _machine_problem(measured, path):
        warnings.warn(f"{path} {message}", EnvironmentWarning, stacklevel=2)
    for message in _setting_process_knobs(measured, roles, place):
        warnings.warn(f"{path} {message}", EnvironmentWarning, stacklevel=2)
    for message in _threads_problem(measured, roles):
        warnings.warn(f"{path} {message}", ThreadsWarning, stacklevel=2)
    return tensorpipe_options(**agent_options(measured.of_role(roles[0])))


def _place(rank: int | None, world_size: int | None) -> tuple[int, int] | None:
    """The place of this process on its host, and how many ranks that has; None: not known."""
    rank = number_in("RANK", -1) if rank is None else rank
    world_size = number_in("WORLD_SIZE", -1) if world_size is None else world_size
    if -1 in (rank, world_size):
        return None
    if not 0 <= rank < world_size:
        raise UsageError(f"there is no rank {rank} in a world of {plural(world_size, 'rank')}")
    return place_on_host(rank, world_size, os.environ)


def _setting_process_knobs(
    measured: ProcessValues, roles: tuple[str, ...], place: tuple[int, int] | None
) -> Iterator[str]:
    """Set them in this process; what the file has that is not set, and what helps."""
    values: dict[str, object] = {}
    for knob in (SWITCH_INTERVAL, INTRA_OP_THREADS.name):
        first, *others = {measured.whole_config.for_role(role).get(knob) for role in roles}
        if others:
            yield (
                f"has {knob} by role, and none is set in this process: give role=, one of "
                f"{', '.join(map(repr, roles))}"
            )
        elif first is not None:
            values[knob] = first
    if values.get(SWITCH_INTERVAL) is not None and not has_gil():
        yield f"has a {SWITCH_INTERVAL}, which has no effect on an interpreter without a GIL"
    if measured.config.binds and place is None:
        yield (
            f"has {CPU_BINDING}={EQUAL}. This process is not bound, since its rank is not "
            "known: give rank= and world_size= to load_rpc_options, as to init_rpc"
        )
    elif measured.config.binds:
        values[CPU_BINDING] = EQUAL
    try:
        ProcessKnobs().apply(values, *(place or (0, 1)))
    except OSError as error:
        yield (
            f"has {CPU_BINDING}={EQUAL}, and this process is not bound: the system does not permit "
            f"to set CPU affinity ({error.strerror}). Its configuration may not be the best "
            "without that"
        )


def _roles_like(
    measured: ProcessValues, role: str | None, path: str | PathLike[str]
) -> tuple[str, ...]:
    """The role given; without one all of them, if they have the same options."""
    named = ", ".join(map(repr, measured.roles))
    if role is not None:
        if role not in measured.roles:
            raise UsageError(f"{path} has no role {role!r}; its roles are {named}")
        return (role,)
    first, *others = (agent_options(measured.of_role(each)) for each in measured.roles)
    if any(other != first for other in others):
        raise UsageError(f"the options in {path} differ by role: give role=, one of {named}")
    return measured.roles


def _machine_problem(measured: ProcessValues, path: str | PathLike[str]) -> Iterator[str]:
    compared = COMPARED_BOUND if measured.config.binds else COMPARED
    if is_bound():
        # It sees its share alone.
        compared = {name: compared[name] for name in compared if name not in BINDING_COMPARED}
    if differences := machine_differences(measured.machine, this_machine(), compared):
        yield (
            f"was measured elsewhere (there, here): {'; '.join(differences)}. Its configuration "
            "may not be the best here; to measure it again: "
            f"{command('search', '--check', str(path))}"
        )


def _threads_problem(measured: ProcessValues, roles: tuple[str, ...]) -> Iterator[str]:
    there, *others = {measured.of_role(role)[INTRA_OP_THREADS.name] for role in roles}
    here = torch.get_num_threads()
    # Without a role, one of several numbers can be right for this process.
    if not others and here != there:
        assert isinstance(there, int)
        yield (
            f"was measured with {plural(there, 'intra-op thread')} in such a process, and this "
            f"one has {here}: call torch.set_num_threads({there}) first"
        )
