"""What is tuned: a workload, or a program that nobody edits."""

from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.plan.program_spec import ProgramSpec
from tuner.plan.workload_spec import WorkloadSpec

Subject = WorkloadSpec | ProgramSpec


def intra_op_threads(subject: Subject) -> dict[str, int]:
    """What `torch.set_num_threads` each role has, unless the configuration says otherwise."""
    threads = {role: subject.default_of(role, INTRA_OP_THREADS.name) for role in subject.roles}
    return {role: count for role, count in threads.items() if isinstance(count, int)}


def intra_op_text(subject: Subject) -> str:
    """The same in words: `1`, or `2 (agent), 1 (observer)`."""
    threads = intra_op_threads(subject)
    if len(set(threads.values())) == 1:
        return str(next(iter(threads.values())))
    return ", ".join(f"{count} ({role})" for role, count in threads.items())
