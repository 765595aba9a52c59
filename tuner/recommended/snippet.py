"""The lines to paste: Python that starts RPC with a configuration."""

from collections.abc import Iterator

from tuner.plan.config import Config
from tuner.plan.knobs import INTRA_OP_THREADS, Value
from tuner.plan.subject import Subject, intra_op_threads
from tuner.recommended.python_source import (
    ALONE,
    BIND_CPUS,
    BINDING_IMPORTS,
    by_role,
    options_call,
    switch_intervals,
    table,
)


def init_rpc_lines(config: Config, subject: Subject) -> str:
    """Python lines that start RPC with a configuration: one options object, or one per role."""
    values = {
        role: {INTRA_OP_THREADS.name: threads, **config.for_role(role)}
        for role, threads in intra_op_threads(subject).items()
    }
    return "\n".join(_lines(values, bound=config.binds))


def _lines(values: dict[str, dict[str, Value]], *, bound: bool) -> Iterator[str]:
    intervals = switch_intervals(values)
    threads = {role: each[INTRA_OP_THREADS.name] for role, each in values.items()}
    yield from ("# At the top of the file:", "import os") if bound else ()
    yield from ("import sys",) if intervals else ()
    yield from BINDING_IMPORTS if bound else ()
    yield from ("",) if bound or intervals else ()
    yield from ("import torch", "import torch.distributed.rpc as rpc", "")
    if bound:
        yield from (BIND_CPUS, "", "# In each process, in place of its init_rpc:", f"# {ALONE}")
        yield "bind_cpus(rank, world_size)"
    if intervals:
        yield f"sys.setswitchinterval({by_role(intervals)})  # seconds"
    yield f"torch.set_num_threads({by_role(threads)})  # as measured"
    options = {role: options_call(each) for role, each in values.items()}
    if len(set(options.values())) == 1:
        yield f"options = {next(iter(options.values()))}"
    else:
        yield "options = {"
        yield from (f"    {part}," for part in table(options.items()).parts)
        yield "}[role]"
    yield "rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)"
