"""The lines to paste: Python that starts RPC with a configuration."""

from tuner.plan.config import Config
from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.plan.subject import Subject, intra_op_threads
from tuner.recommended.python_source import literal, options_call, table


def init_rpc_lines(config: Config, subject: Subject) -> str:
    """Python lines that start RPC with a configuration: one options object, or one per role."""
    by_role = {
        role: {INTRA_OP_THREADS.name: threads, **config.for_role(role)}
        for role, threads in intra_op_threads(subject).items()
    }
    options = {role: options_call(values) for role, values in by_role.items()}
    threads = {role: values[INTRA_OP_THREADS.name] for role, values in by_role.items()}
    lines = ["import torch", "import torch.distributed.rpc as rpc", ""]
    if len(set(threads.values())) == 1:
        lines.append(f"torch.set_num_threads({next(iter(threads.values()))})  # as measured")
    else:
        lines.append(f"torch.set_num_threads({literal(threads)}[role])  # as measured")
    if len(set(options.values())) == 1:
        lines.append(f"options = {next(iter(options.values()))}")
    else:
        lines += ["options = {"]
        lines += [f"    {part}," for part in table(options.items()).parts]
        lines += ["}[role]"]
    lines.append(
        "rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)"
    )
    return "\n".join(lines)
