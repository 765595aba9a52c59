"""`tuner.load_rpc_options`: `recommended.json` as TensorPipeRpcBackendOptions, in a program."""

import warnings
from os import PathLike
from pathlib import Path

import torch
from torch.distributed.rpc import TensorPipeRpcBackendOptions

from tuner.errors import UsageError
from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.recommended.json_and_toml import read_recommendation
from tuner.recommended.model import Recommendation
from tuner.recommended.recheck import recheck_command
from tuner.text import plural
from tuner.torch_private.agent import tensorpipe_options
from tuner.world.agent_options import agent_options
from tuner.world.environment import Environment


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
    recommendation = read_recommendation(Path(path))
    roles = _roles_like(recommendation, role, path)
    if message := _environment_problem(recommendation, path):
        warnings.warn(message, EnvironmentWarning, stacklevel=2)
    if message := _threads_problem(recommendation, roles, path):
        warnings.warn(message, ThreadsWarning, stacklevel=2)
    return tensorpipe_options(**agent_options(recommendation.values_of(roles[0])))


def _roles_like(
    recommendation: Recommendation, role: str | None, path: str | PathLike[str]
) -> tuple[str, ...]:
    """The role given; without one all of them, if they have the same options."""
    roles = recommendation.roles
    named = ", ".join(map(repr, roles))
    if role is not None:
        if role not in roles:
            raise UsageError(f"{path} has no role {role!r}; its roles are {named}")
        return (role,)
    options = [agent_options(recommendation.values_of(each)) for each in roles]
    if any(each != options[0] for each in options):
        raise UsageError(f"the options in {path} differ by role: give role=, one of {named}")
    return roles


def _environment_problem(recommendation: Recommendation, path: str | PathLike[str]) -> str | None:
    differences = recommendation.environment.differences(Environment.here())
    if not differences:
        return None
    return (
        f"{path} was measured elsewhere (there, here): {'; '.join(differences)}. Its configuration "
        f"may not be the best here; to measure it again: {recheck_command(recommendation)}"
    )


def _threads_problem(
    recommendation: Recommendation, roles: tuple[str, ...], path: str | PathLike[str]
) -> str | None:
    measured = {recommendation.values_of(role)[INTRA_OP_THREADS.name] for role in roles}
    here = torch.get_num_threads()
    # Without a role, one of several numbers can be right for this process.
    if len(measured) > 1 or here in measured:
        return None
    (there,) = measured
    assert isinstance(there, int)
    return (
        f"{path} was measured with {plural(there, 'intra-op thread')} in such a process, and this "
        f"one has {here}: call torch.set_num_threads({there}) first"
    )
