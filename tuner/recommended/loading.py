"""`tuner.load_rpc_options`: `recommended.json` as TensorPipeRpcBackendOptions, in a program.

torch and the standard library only: on a rank there may be nothing else.
"""

import shlex
import warnings
from os import PathLike
from pathlib import Path

import torch
from torch.distributed.rpc import TensorPipeRpcBackendOptions

from tuner.errors import UsageError
from tuner.machine import machine_differences, this_machine
from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.recommended.document import ProcessValues, read_process_values
from tuner.text import plural
from tuner.torch_private.agent import tensorpipe_options
from tuner.world.agent_options import agent_options


class EnvironmentWarning(UserWarning):
    """The configuration was measured with another machine, another torch, or other threads."""


class ThreadsWarning(EnvironmentWarning):
    """The configuration was measured with another `torch.set_num_threads`."""


def load_rpc_options(
    path: str | PathLike[str], *, role: str | None = None
) -> TensorPipeRpcBackendOptions:
    """The recommended options, for the argument `rpc_backend_options` of `init_rpc`.

    Args:
        path: `recommended.json`, or an export to JSON or TOML.
        role: The role of this process in the workload; None where all roles have the same options.

    Returns:
        The `TensorPipeRpcBackendOptions`.

    Raises:
        UsageError: The file cannot be read or is damaged, or has no such role.

    Warns:
        EnvironmentWarning: The CPU model, the number of logical CPUs or torch differ from those of
            the measurement.
        ThreadsWarning: This process has another number of intra-op threads.
    """
    measured = read_process_values(Path(path))
    roles = _roles_like(measured, role, path)
    if message := _environment_problem(measured, path):
        warnings.warn(message, EnvironmentWarning, stacklevel=2)
    if message := _threads_problem(measured, roles, path):
        warnings.warn(message, ThreadsWarning, stacklevel=2)
    return tensorpipe_options(**agent_options(measured.of_role(roles[0])))


def _roles_like(
    measured: ProcessValues, role: str | None, path: str | PathLike[str]
) -> tuple[str, ...]:
    """The role given; without one all of them, if they have the same options."""
    named = ", ".join(map(repr, measured.roles))
    if role is not None:
        if role not in measured.roles:
            raise UsageError(f"{path} has no role {role!r}; its roles are {named}")
        return (role,)
    options = [agent_options(measured.of_role(each)) for each in measured.roles]
    if any(each != options[0] for each in options):
        raise UsageError(f"the options in {path} differ by role: give role=, one of {named}")
    return measured.roles


def _environment_problem(measured: ProcessValues, path: str | PathLike[str]) -> str | None:
    differences = machine_differences(measured.machine, this_machine())
    if not differences:
        return None
    again = shlex.join(["python", "-m", "tuner.search", "--check", str(path)])
    return (
        f"{path} was measured elsewhere (there, here): {'; '.join(differences)}. Its configuration "
        f"may not be the best here; to measure it again: {again}"
    )


def _threads_problem(
    measured: ProcessValues, roles: tuple[str, ...], path: str | PathLike[str]
) -> str | None:
    numbers = {measured.of_role(role)[INTRA_OP_THREADS.name] for role in roles}
    here = torch.get_num_threads()
    # Without a role, one of several numbers can be right for this process.
    if len(numbers) > 1 or here in numbers:
        return None
    (there,) = numbers
    assert isinstance(there, int)
    return (
        f"{path} was measured with {plural(there, 'intra-op thread')} in such a process, and this "
        f"one has {here}: call torch.set_num_threads({there}) first"
    )
