"""What to paste to use the answer of a study, or to continue it: lines of Python or a shell."""

import os
import shlex
from typing import Literal, NamedTuple

from tuner.cpus import named, share_of_rank
from tuner.machine import BINDING_COMPARED, machine_differences, this_machine
from tuner.plan.config import Config
from tuner.plan.program_spec import ProgramSpec
from tuner.recommended.python_source import ALONE
from tuner.recommended.snippet import init_rpc_lines
from tuner.study.answer import StudyAnswer
from tuner.study.continuing import resume_command
from tuner.study.log import BASELINE

_MOST_RANKS = 8
"""Of which commands are named."""


class Snippet(NamedTuple):
    """Text for pasting."""

    language: Literal["python", "bash"]
    text: str


def snippet_of(answer: StudyAnswer) -> Snippet | None:
    """The lines that start RPC, or the program, with the recommended configuration.

    None where nothing is recommended, or the program is to run as it does.
    """
    if answer.best is None:
        return None
    subject = answer.plan.subject
    if not isinstance(subject, ProgramSpec):
        lines = [init_rpc_lines(answer.best, subject), *_binding_command(answer, answer.best)]
        return Snippet("python", "\n".join(lines))
    if answer.best_trial == BASELINE:
        return None
    recommended = os.path.relpath(answer.folder.recommended)
    lines = [f"# {ALONE}"] if answer.best.binds else []
    lines += [
        shlex.join(["python", "-m", "tuner.run", recommended, "--", *command])
        for command in subject.commands
    ]
    return Snippet("bash", "\n".join(lines))


def _binding_command(answer: StudyAnswer, config: Config) -> list[str]:
    """A line with the commands that bind as `bind_cpus` does here; none elsewhere, or for many."""
    ranks = len(answer.plan.subject.ranks)
    environment, here = answer.environment, this_machine()
    differs = machine_differences(environment.model_dump(), here, BINDING_COMPARED)
    is_here = environment.numa_nodes is not None and not differs
    is_local = answer.plan.launching.launcher == "local"
    if not config.binds or not (is_here and is_local) or ranks > _MOST_RANKS:
        return []
    commands = [
        f"taskset -c {named(share_of_rank(rank, ranks))} python ... (rank {rank})"
        for rank in range(ranks)
    ]
    return [f"# Instead of bind_cpus, on this machine: {', '.join(commands)}"]


def continuing(answer: StudyAnswer) -> Snippet | None:
    """The command that measures on; None where the answer is clear."""
    is_open = answer.interrupted or answer.verdict == "undecided"
    return Snippet("bash", resume_command(answer)) if is_open else None
