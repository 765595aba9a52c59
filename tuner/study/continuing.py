"""The command that continues a study, and the flags that name one."""

import shlex

from tuner.files import shown
from tuner.study.answer import StudyAnswer
from tuner.study.folder import STUDIES


def resume_command(answer: StudyAnswer) -> str:
    """One line for a shell, in the current folder, that continues a study."""
    words = ["python", "-m", "tuner.search", "--resume", *place_flags(answer)]
    return shlex.join([*words, *more_flags(answer)])


def place_flags(answer: StudyAnswer) -> list[str]:
    """The flags that say where a study is; a password in its storage's URL is left to fill in."""
    flags, root = ["--study", answer.study], answer.folder.root
    if root.absolute() != (STUDIES / answer.study).absolute():
        flags += ["--out", shown(root)]
    return flags if answer.storage is None else [*flags, "--storage", answer.storage]


def more_flags(answer: StudyAnswer) -> list[str]:
    """The flags that let a study measure more; none where an interrupted one has the time."""
    if answer.needed_s is not None:
        return ["--budget", f"{answer.needed_s}s"]
    if answer.interrupted:
        return []
    flags = ["--budget", f"{answer.resume_budget_s}s"]
    most = answer.plan.measuring.max_blocks
    if most is not None and answer.blocks >= most:
        flags += ["--max-blocks", str(2 * most)]
    return flags
