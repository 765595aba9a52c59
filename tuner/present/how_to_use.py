"""What to paste to use the answer of a study, or to continue it: lines of Python or a shell."""

import os
import shlex
from typing import Literal, NamedTuple

from tuner.plan.program_spec import ProgramSpec
from tuner.recommended.snippet import init_rpc_lines
from tuner.study.answer import StudyAnswer
from tuner.study.continuing import resume_command
from tuner.study.log import BASELINE


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
        return Snippet("python", init_rpc_lines(answer.best, subject))
    if answer.best_trial == BASELINE:
        return None
    recommended = os.path.relpath(answer.folder.recommended)
    lines = [
        shlex.join(["python", "-m", "tuner.run", recommended, "--", *command])
        for command in subject.commands
    ]
    return Snippet("bash", "\n".join(lines))


def continuing(answer: StudyAnswer) -> Snippet | None:
    """The command that measures on; None where the answer is clear."""
    is_open = answer.interrupted or answer.verdict == "undecided"
    return Snippet("bash", resume_command(answer)) if is_open else None
