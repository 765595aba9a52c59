"""What is printed of a search that is not begun: `--dry-run`, and `--list-workloads`."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tuner.plan.workload_spec import CatalogueEntry, OptionSpec
from tuner.searching.dry_run import DryRun
from tuner.text import command, duration, percent, plural, rough_duration, share


def dry_run_lines(found: DryRun, epsilon: float) -> list[str]:
    """What the search would do, and what its budget can show; `epsilon` is a fraction."""
    budget, is_grid = duration(found.budget_s), found.sampler == "grid"
    would = "The whole grid would be measured."
    if not is_grid:
        would = f"{budget} is too little for the grid: {found.sampler} would propose what to try."
    elif found.reached < found.configs:
        best = plural(found.reached - 1, "best bet")
        would = f"{budget} is too little for all: the baseline and {best} would be measured."
    lines = [
        f"{plural(found.configs, 'configuration')}, the baseline included.",
        f"A world takes {duration(found.world_s)}, so a block of all of them "
        f"{duration(found.block_s)}.",
        would,
    ]
    spread = (
        f"Worlds of the baseline differ by {share(found.sigma)} ({found.worlds} of them, after the "
        "first)"
    )
    if found.blocks < 3:
        return [*lines, f"{spread}. {budget} has no time for a comparison: {_enough(found)}."]
    takes = duration(found.budget_s * (found.least_gain / epsilon) ** 2)
    enough = f"That is more than epsilon, {percent(epsilon)}: a close race takes about {takes}"
    if found.least_gain <= epsilon:
        enough = f"That is less than epsilon, {percent(epsilon)}: enough to decide"
    twice = ", each with the baseline twice" if found.has_baseline_twice else ""
    first = "calibration and" if is_grid else "calibration, exploration and"
    told = (
        f"{spread}. After {first} tracing, {budget} leaves time for about "
        f"{plural(found.blocks, 'block')}{twice}. These can show a gain of "
        f"about {share(found.least_gain)}. {enough}."
    )
    return [*lines, told]


def _enough(found: DryRun) -> str:
    """What to do about a budget that is too short for a comparison."""
    if found.sampler != "grid":
        return "give it more"
    # The first worlds, three blocks with the baseline twice, and two traces; and some to spare.
    worlds = found.configs + 3 * (found.configs + 1) + 2
    return f"give it {rough_duration(1.2 * worlds * found.world_s)} or more, or try fewer values"


def print_catalogue(entries: Sequence[CatalogueEntry], console: Console) -> None:
    """Print each workload: its name, what it is, its roles, and a line per option."""
    for entry in entries:
        console.print(Text.assemble((entry.name, "bold"), "  ", entry.summary))
        if entry.roles:
            roles = ", ".join(f"{count} {role}" for role, count in entry.roles.items())
            console.print(Text(f"  ranks: {roles}"))
        for problem in entry.problems:
            console.print(Text(f"  cannot run here: {problem}", style="red"))
        console.print(Padding(_options_table(entry.options), (0, 0, 1, 2)))
    own = "Your own: --workload package.module:Class or --workload path/to/file.py:Class; "
    console.print(Text(f"{own}{command('init', 'workload')} writes one to begin with."))


def _options_table(options: Sequence[OptionSpec]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("--set", "type", "default", "what it is"):
        table.add_column(heading, no_wrap=heading != "what it is")
    for option in options:
        default = str(option.default)
        if isinstance(option.default, bool):
            default = default.lower()  # as a person types it after `--set name=`
        what = "; ".join(filter(None, [option.summary.removesuffix("."), option.limits]))
        table.add_row(option.name, option.kind, default, what)
    return table
