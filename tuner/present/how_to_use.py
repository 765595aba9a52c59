"""What to paste to use the answer of a study, or to continue it: lines of Python or a shell."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tuner.cpus import named, share_of_rank
from tuner.errors import UsageError
from tuner.files import shown
from tuner.machine import BINDING_COMPARED, machine_differences, this_machine
from tuner.plan.config import ALL_ROLES, Config
from tuner.plan.knobs import INTRA_OP_THREADS
from tuner.plan.program_spec import Subject, intra_op_threads
from tuner.present.wording import verdict_sentence
from tuner.process_knobs import CPU_BINDING, SWITCH_INTERVAL
from tuner.recommended import python_module as source
from tuner.recommended.building import recommendation_of
from tuner.recommended.model import Recommendation, as_json, as_toml
from tuner.recommended.python_module import as_python
from tuner.study.answer import StudyAnswer
from tuner.study.log import BASELINE
from tuner.study.search_commands import resume_command
from tuner.text import command, plural, three_digits

FORMS = ("json", "toml", "python")
"""The formats of an export."""
_FEW, _LINE = 5, 76
"""Lines on one screen, and characters of each."""
_MOST_RANKS = 8
"""Of which commands are named."""


class Snippet(NamedTuple):
    """Text for pasting."""

    language: Literal["python", "bash"]
    text: str


def snippet_of(answer: StudyAnswer) -> Snippet | None:
    """The lines that start RPC, or the program, as recommended; None if nothing is to change."""
    if answer.best is None or answer.best_trial == BASELINE:
        return None
    subject = answer.plan.subject
    if not subject.commands:
        lines = [init_rpc_lines(answer.best, subject), *_binding_command(answer, answer.best)]
        return Snippet("python", "\n".join(lines))
    recommended = shown(answer.files.recommended)
    lines = [f"# {source.ALONE}"] if answer.best.binds else []
    lines += [command("run", recommended, "--", *each) for each in subject.commands]
    return Snippet("bash", "\n".join(lines))


def few_lines_of(answer: StudyAnswer) -> Snippet | None:
    """`snippet_of` in a few lines, which load the study's file where it takes more than two."""
    whole, subject, best = snippet_of(answer), answer.plan.subject, answer.best
    if whole is None or best is None or subject.commands:
        return whole and whole._replace(text="\n".join(whole.text.splitlines()[:_FEW]))
    starts = ("torch.", "options = rpc.")
    options = [each for each in _init_lines(best, subject) if each.startswith(starts)]
    is_of_agent = not any(each.knob in (CPU_BINDING, SWITCH_INTERVAL) for each, _ in best.items)
    if len(options) < 2 or not is_of_agent:
        arguments = [f'"{shown(answer.files.recommended)}"']
        if any(dimension.role != ALL_ROLES for dimension, _ in best.items):
            arguments.append("role=role")
        if best.binds:
            arguments.append("rank=rank, world_size=world_size")
        given = ", ".join(arguments)
        call = f"options = tuner.load_rpc_options({given})"
        if len(call) > _LINE:
            call = f"options = tuner.load_rpc_options(\n    {given})"
        first = [f"# {source.ALONE}"] if best.binds else []
        options = [*first, "import tuner", *call.splitlines()]
    lines = [*options, "rpc.init_rpc(..., rpc_backend_options=options)  # the rest as before"]
    return Snippet("python", "\n".join(lines))


def _binding_command(answer: StudyAnswer, config: Config) -> list[str]:
    """A line with the commands that bind as `bind_cpus` does here; none elsewhere, or for many."""
    ranks, there = len(answer.plan.subject.ranks), answer.environment
    is_few_local = ranks <= _MOST_RANKS and answer.plan.launching.launcher == "local"
    if not (config.binds and is_few_local) or there.numa_nodes is None:
        return []
    if machine_differences(there.model_dump(), this_machine(), BINDING_COMPARED):
        return []
    commands = ", ".join(
        f"taskset -c {named(share_of_rank(rank, ranks))} python ... (rank {rank})"
        for rank in range(ranks)
    )
    return [f"# Instead of bind_cpus, on this machine: {commands}"]


def continuing(answer: StudyAnswer) -> Snippet | None:
    """The command that measures on; None where the answer is clear, and of all that is asked."""
    is_open = answer.interrupted or (answer.verdict == "undecided" and not answer.none_feasible)
    return Snippet("bash", resume_command(answer)) if is_open or answer.not_reached else None


def init_rpc_lines(config: Config, subject: Subject) -> str:
    """Python lines that start RPC with a configuration: one options object, or one per role."""
    return "\n".join(_init_lines(config, subject))


def _init_lines(config: Config, subject: Subject) -> Iterator[str]:
    threads = intra_op_threads(subject, config)
    values = {
        role: {**config.for_role(role), INTRA_OP_THREADS.name: threads[role]} for role in threads
    }
    bound, intervals = config.binds, source.switch_intervals(values)
    if bound:
        yield from ("# At the top of the file:", "import os")
    if intervals:
        yield "import sys"
    if bound:
        yield from source.BINDING_IMPORTS
    if bound or intervals:
        yield ""
    yield from ("import torch", "import torch.distributed.rpc as rpc", "")
    if bound:
        yield from (source.BIND_CPUS, "", "# In each process, in place of its init_rpc:")
        yield from (f"# {source.ALONE}", "bind_cpus(rank, world_size)")
    if intervals:
        yield f"sys.setswitchinterval({source.by_role(intervals)})  # seconds"
    measured = {role: each[INTRA_OP_THREADS.name] for role, each in values.items()}
    yield f"torch.set_num_threads({source.by_role(measured)})  # as measured"
    options = {role: source.options_call(each) for role, each in values.items()}
    if len(set(options.values())) == 1:
        yield f"options = {next(iter(options.values()))}"
    else:
        yield "options = {"
        yield from (f"    {part}," for part in source.table(options.items()).parts)
        yield "}[role]"
    yield "rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)"


def exported(answer: StudyAnswer, form: str, trial: int | None = None) -> str:
    """A configuration in a format that a program loads.

    Args:
        answer: The study.
        form: The format: `json`, `toml` or `python`.
        trial: Whose configuration; None: the recommended one.

    Raises:
        UsageError: There is no such format, the study recommends nothing, the trial did not run, or
            the study is damaged.
    """
    if form not in FORMS:
        raise UsageError(f"the format must be {' or '.join(FORMS)}, got {form!r}")
    recommendation = recommendation_of(answer, trial)
    # First: what cannot be written as JSON could be written, and not loaded, in another format.
    document = as_json(recommendation)
    if form == "json":
        return document
    if form == "toml":
        return as_toml(recommendation)
    return as_python(recommendation, _exported_sentence(answer, recommendation))


def _exported_sentence(answer: StudyAnswer, recommendation: Recommendation) -> str:
    """The verdict; of a configuration chosen by hand, what was measured of it."""
    if recommendation.trial == answer.best_trial:
        return verdict_sentence(answer)
    measured = recommendation.measured
    assert measured.value is not None
    advice = "the study has no verdict yet."
    if answer.best is not None:
        advice = f"the study's own verdict is: {verdict_sentence(answer)}"
    return (
        f"Chosen by hand: {recommendation.config}, {three_digits(measured.value)} {measured.unit} "
        f"in {plural(measured.worlds, 'world')}, by {answer.objective.label}; {advice}"
    )
