"""What a study's page and note say about its environment, and about how it was measured."""

from tuner.plan.knobs import KNOBS
from tuner.plan.objectives import Objective
from tuner.plan.program_spec import Subject, intra_op_text
from tuner.plan.workload_spec import WorkloadSpec
from tuner.present.wording import worlds_text
from tuner.study.answer import StudyAnswer
from tuner.study.metrics import PARALLELISM_MEAN
from tuner.study.records import Phase
from tuner.text import MOST_TELLING, decimal, duration, percent, plural, share
from tuner.world.environment import DISTURBED_SHARE, Environment

Facts = list[tuple[str, str]]
"""Names, each with a phrase or a sentence."""


def environment_facts(answer: StudyAnswer) -> Facts:
    """The machine and the software, and what ran on them."""
    environment, subject = answer.environment, answer.plan.subject
    found = [rank.role for rank in subject.ranks]
    ranks = ", ".join(f"{found.count(role)} {role}" for role in subject.roles)
    return [
        *_subject_facts(subject),
        ("ranks", ranks),
        ("intra-op threads", f"{intra_op_text(subject)} in each process, unless tuned"),
        ("CPU", f"{environment.cpu_model}, {plural(environment.cpu_count, 'logical CPU')}"),
        ("memory", f"{environment.memory_gb:g} GB"),
        ("torch", environment.torch),
        ("Python", environment.python),
        ("kernel", environment.kernel),
        *_network(environment.own_network),
        *_groups(environment),
        *_others(answer),
        ("date", f"{answer.measured_at:%Y-%m-%d %H:%M} UTC"),
    ]


def _groups(environment: Environment) -> Facts:
    """The groups that blocks were measured by, and how unlike they are."""
    if not (groups := environment.groups):
        return []
    first = groups[0]
    pinned = [
        f"each world is pinned to {plural(first.cpu_count, 'logical CPU')} of this machine: the "
        "times are those of so small a machine, not of the whole one"
    ]
    said = pinned if first.pinned else []
    if len(groups) > 1:
        names = "; ".join(f"{number}: {each.name}" for number, each in enumerate(groups, start=1))
        said.insert(0, f"{plural(len(groups), 'group')} measured a block each at a time ({names})")
    if unlike := environment.unlike_groups:
        said.append(
            f"the groups are not alike ({'; '.join(unlike)}): a speed-up is the mean over them"
        )
    return [("groups" if len(groups) > 1 else "pinned", "; ".join(said))]


def _others(answer: StudyAnswer) -> Facts:
    """What others took of the machine while the worlds ran that count, where that is known."""
    machine = answer.machine
    if machine is None:
        return []
    said = [
        f"other programs used {decimal(machine.others_cpus)} of "
        f"{plural(machine.cpus, 'logical CPU')} on average, and the hypervisor gave "
        f"{decimal(machine.stolen_cpus)} to others",
        f"{machine.disturbed_worlds} of {plural(machine.worlds, 'world')} had more than "
        f"{percent(DISTURBED_SHARE)} of the CPUs taken",
    ]
    if machine.repeated_blocks:
        said.append(f"{plural(machine.repeated_blocks, 'disturbed block')} more measured again")
    if machine.throttled_worlds:
        said.append(f"a CPU quota stopped {plural(machine.throttled_worlds, 'world')} for a while")
    if machine.pressure_some is not None:
        said.append(
            f"some thread waited for a CPU {share(machine.pressure_some)} of the time, the "
            "worlds' own included"
        )
    if machine.mhz is not None:
        said.append(f"{machine.mhz:.0f} MHz")
    if machine.load is not None:
        said.append(f"load average {decimal(machine.load)}")
    return [("others on the machine", "; ".join(said))]


def _subject_facts(subject: Subject) -> Facts:
    if isinstance(subject, WorkloadSpec):
        options = ", ".join(f"{name}={value}" for name, value in subject.options.items())
        return [
            ("workload", f"{subject.reference}: {subject.summary}"),
            ("options", options or "none"),
        ]
    starts = [("start of each run", subject.starts)] if subject.starts else []
    return [("program", subject.reference), *starts]


def _network(own: bool | None) -> Facts:
    if own is None:
        return []
    shared = "the machine's: while a world ran, any user of the machine could reach it"
    return [("network of the worlds", "of their own" if own else shared)]


def method_facts(answer: StudyAnswer) -> Facts:
    """How the numbers were measured, and what the words in the report mean."""
    measuring = answer.plan.measuring
    source = "read from traces" if answer.objective.traced else "measured with tracing off"
    budget = f"{duration(answer.elapsed_s)} of {measuring.limit}"
    return [
        (
            "objective",
            f"{answer.objective.heading}, {source}; {answer.objective.better}",
        ),
        ("search space", _space(answer)),
        ("baseline", str(answer.baseline)),
        (
            "worlds",
            f"{worlds_text(answer)}, in {budget}; {_world(answer)}",
        ),
        ("blocks", _blocks(answer)),
        *_speedup(answer),
        (
            "epsilon",
            f"{percent(measuring.epsilon)}: a smaller difference does not matter{_shown(answer)}",
        ),
        ("traces", _traces(answer)),
        ("order", f"random in each block, from seed {measuring.seed}"),
    ]


def _speedup(answer: StudyAnswer) -> Facts:
    """How the rival that met the baseline was compared with it; nothing if none did."""
    rivals = [contender for contender in answer.contenders if contender != "baseline"]
    if not rivals:
        return []
    (rival,) = rivals
    return [
        (
            "speed-up",
            f"{_ratio(answer.objective, rival)}, paired within blocks; spikes have no weight, and "
            f"the {percent(answer.plan.measuring.confidence)} interval holds for all "
            f"configurations and all looks at them together",
        )
    ]


def _ratio(objective: Objective, rival: str) -> str:
    """What a speed-up divides, so that more than 1 is better."""
    if objective.is_time:
        return f"baseline time / {rival} time"
    return f"{rival} / baseline" if objective.maximize else f"baseline / {rival}"


def _world(answer: StudyAnswer) -> str:
    subject, least = answer.plan.subject, duration(answer.plan.measuring.min_time_s)
    if isinstance(subject, WorkloadSpec):
        return f"each has new processes, and after a warm-up at least {least} of timed steps"
    if subject.window_s is None:
        return "each is one run of the program, in new processes"
    return (
        f"each is a new start of the program, which is ended after {duration(subject.warm_up_s)} "
        f"of warm-up and {duration(subject.window_s)} in which its calls are counted"
    )


def _space(answer: StudyAnswer) -> str:
    axes = [
        f"{dimension}: {', '.join(KNOBS[dimension.knob].format(value) for value in values)}"
        for dimension, values in answer.plan.space.axes
    ]
    return "; ".join(axes)


def _blocks(answer: StudyAnswer) -> str:
    def count(phase: Phase) -> int:
        return len({seen.block for seen in answer.observations if seen.phase == phase})

    parts = []
    if rounds := count("exploration"):
        said = "what the sampler proposed" if answer.sampling else "all that may be on the front"
        parts.append(f"{plural(rounds, 'block')} of {said}")
    if race := count("race"):
        parts.append(f"{plural(race, 'block')} of the baseline and its rivals")
    return ", then ".join(parts) or "none"


def _traces(answer: StudyAnswer) -> str:
    traced = sum(PARALLELISM_MEAN.name in row.metrics for row in answer.rows)
    seen = (
        f"{traced} of {plural(len(answer.rows), 'configuration')} were traced, with operators; the "
        "traced worlds were not timed, and tell the parallelism and the parts of a call's time"
    )
    return f"every world that counts was traced; {seen}" if answer.objective.traced else seen


def _shown(answer: StudyAnswer) -> str:
    behind = answer.epsilon_achieved
    if behind is None or behind > MOST_TELLING:
        return ""
    worse = "slower" if answer.objective.is_time else "worse"
    return (
        f"; {answer.best} is shown to be at most {share(behind)} {worse} than any other "
        "configuration"
    )
