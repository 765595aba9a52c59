"""What a study's page and note say about its environment, and about how it was measured."""

from collections import Counter

from tuner.machine import DISTURBED_SHARE
from tuner.plan.knobs import KNOBS
from tuner.plan.program_spec import intra_op_text
from tuner.present.wording import confidence, epsilon, faster_or_slower, worlds_text
from tuner.study.answer import MachineUse, StudyAnswer
from tuner.study.metrics import PARALLELISM_MEAN
from tuner.study.records import Phase
from tuner.text import MOST_TELLING, decimal, duration, percent, plural, share, three_digits
from tuner.world.environment import Environment

Facts = list[tuple[str, str]]
"""Names, each with a phrase or a sentence."""


def environment_facts(answer: StudyAnswer) -> Facts:
    """The machine and the software, and what ran on them."""
    environment, subject = answer.environment, answer.plan.subject
    ranks = Counter(rank.role for rank in subject.ranks)
    facts = [
        *subject.facts,
        ("ranks", ", ".join(f"{ranks[role]} {role}" for role in subject.roles)),
        ("intra-op threads", f"{intra_op_text(subject)} in each process, unless tuned"),
        ("CPU", f"{environment.cpu_model}, {plural(environment.cpu_count, 'logical CPU')}"),
        ("memory", f"{environment.memory_gb:g} GB"),
        ("torch", environment.torch),
        ("Python", environment.python),
        ("kernel", environment.kernel),
    ]
    if environment.own_network is not None:
        shared = "the machine's: while a world ran, any user of the machine could reach it"
        network = "of their own" if environment.own_network else shared
        facts.append(("network of the worlds", network))
    if environment.groups:
        facts.append(_groups(environment))
    if answer.machine is not None:
        facts.append(("others on the machine", _others(answer.machine)))
    return [*facts, ("date", f"{answer.measured_at:%Y-%m-%d %H:%M} UTC")]


def _groups(environment: Environment) -> tuple[str, str]:
    """The groups that blocks were measured by, and how unlike they are."""
    said, groups = [], environment.groups
    if len(groups) > 1:
        names = "; ".join(f"{number}: {each.name}" for number, each in enumerate(groups, start=1))
        said.append(f"{plural(len(groups), 'group')} measured a block each at a time ({names})")
    if groups[0].pinned:
        said.append(
            f"Each world is pinned to {plural(groups[0].cpu_count, 'logical CPU')} of this "
            "machine: the times are those of so small a machine"
        )
    if unlike := environment.unlike_groups:
        said.append(
            f"The groups are not alike ({'; '.join(unlike)}): a speed-up is the mean over them"
        )
    return "groups" if len(groups) > 1 else "pinned", f"{'. '.join(said)}."


def _others(machine: MachineUse) -> str:
    """What others took of the machine while the worlds ran that count."""
    said = [
        f"Other programs used {decimal(machine.others_cpus)} of "
        f"{plural(machine.cpus, 'logical CPU')} on average, and the hypervisor gave "
        f"{decimal(machine.stolen_cpus)} to others",
        f"{machine.disturbed_worlds} of {plural(machine.worlds, 'world')} had more than "
        f"{percent(DISTURBED_SHARE)} of the CPUs taken",
    ]
    if machine.repeated_blocks:
        said.append(f"{plural(machine.repeated_blocks, 'disturbed block')} more, measured again")
    if machine.throttled_worlds:
        said.append(f"A CPU quota stopped {plural(machine.throttled_worlds, 'world')} for a while")
    if machine.pressure_some is not None:
        waited = f"Some thread waited for a CPU {share(machine.pressure_some)} of the time"
        said.append(f"{waited}, the worlds' own included")
    if machine.mhz is not None:
        said.append(f"The CPUs ran at {three_digits(machine.mhz)} MHz")
    if machine.load is not None:
        said.append(f"The load average was {decimal(machine.load)}")
    return f"{'. '.join(said)}."


def method_facts(answer: StudyAnswer) -> Facts:
    """How the numbers were measured, and what the words in the report mean."""
    measuring, objective = answer.plan.measuring, answer.objective
    source = "read from traces" if objective.traced else "measured with tracing off"
    space = "; ".join(
        f"{dimension}: {', '.join(map(KNOBS[dimension.knob].format, values))}"
        for dimension, values in answer.plan.space.axes
    )
    budget = f"{duration(answer.elapsed_s)} of {measuring.limit}"
    matters = f"{epsilon(answer)}: a smaller difference does not matter."
    if answer.epsilon_achieved is not None and answer.epsilon_achieved <= MOST_TELLING:
        most = f"{share(answer.epsilon_achieved)} {faster_or_slower(answer)[1]}"
        matters += f" {answer.best} is shown to be at most {most} than any other configuration."
    return [
        ("objective", f"{objective.heading}, {source}; {objective.better}"),
        ("search space", space),
        ("baseline", str(answer.baseline)),
        ("worlds", f"{worlds_text(answer)}, in {budget}. {_world(answer)}."),
        ("blocks", _blocks(answer)),
        *_speedup(answer),
        ("epsilon", matters),
        ("traces", _traces(answer)),
        ("order", f"random in each block, from seed {measuring.seed}"),
    ]


def _world(answer: StudyAnswer) -> str:
    subject, least = answer.plan.subject, duration(answer.plan.measuring.min_time_s)
    if subject.has_steps:
        return f"Each has new processes, and after a warm-up at least {least} of timed steps"
    if subject.window_s is None:
        return "Each is one run of the program, in new processes"
    about, or_ends = ("about ", ", unless it ends before") if subject.window_is_chosen else ("", "")
    return (
        f"Each is a new start of the program. After {duration(subject.warm_up_s)} of warm-up its "
        f"calls are counted for {about}{duration(subject.window_s)}, and it is ended{or_ends}"
    )


def _blocks(answer: StudyAnswer) -> str:
    seen = {(each.block, each.phase) for each in answer.observations}
    blocks = Counter(phase for _, phase in seen)
    explored = "what the sampler proposed" if answer.sampling else "all that may be on the front"
    phases: dict[Phase, str] = {"exploration": explored, "race": "the baseline and its rivals"}
    said = [
        f"{plural(blocks[each], 'block')} of {what}"
        for each, what in phases.items()
        if blocks[each]
    ]
    return ", then ".join(said) or "none"


def _speedup(answer: StudyAnswer) -> Facts:
    """How the rival that met the baseline was compared with it; nothing if none did."""
    objective = answer.objective
    # More than 1 is better.
    ratio = "{rival} / baseline" if objective.maximize else "baseline / {rival}"
    if objective.is_time:
        ratio = "baseline time / {rival} time"
    said = (
        f"{ratio}, paired within blocks. Spikes have no weight. The {confidence(answer)} "
        "interval holds for all configurations and all looks at them together."
    )
    rivals = [each for each in answer.contenders if each != "baseline"]
    return [("speed-up", said.format(rival=rival)) for rival in rivals]


def _traces(answer: StudyAnswer) -> str:
    traced = sum(PARALLELISM_MEAN.name in row.metrics for row in answer.rows)
    seen = (
        f"{traced} of {plural(len(answer.rows), 'configuration')} were traced with operators, in "
        "worlds that were not timed. These tell the parallelism and the parts of a call's time."
    )
    return f"Every world that counts was traced. {seen}" if answer.objective.traced else seen
