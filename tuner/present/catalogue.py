"""The shipped workloads, as `--list-workloads` shows them."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tuner.plan.workload_spec import CatalogueEntry, OptionSpec


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
    console.print(
        Text(
            "Your own: --workload package.module:Class or --workload path/to/file.py:Class; "
            "rpc-tuner init workload writes one to begin with."
        )
    )


def _options_table(options: Sequence[OptionSpec]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in ("--set", "type", "default", "what it is"):
        table.add_column(heading, no_wrap=heading != "what it is")
    for option in options:
        summary = option.summary.removesuffix(".")
        table.add_row(
            option.name,
            option.kind,
            _as_typed(option.default),
            f"{summary}; {option.limits}" if option.limits else summary,
        )
    return table


def _as_typed(value: bool | int | float | str) -> str:
    """As a person types it after `--set name=`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
