from typing import Any

from tests.present.screen import printed
from tuner.plan.workload_spec import CatalogueEntry, OptionSpec
from tuner.present.before_search import print_catalogue


def catalogue(summary: str, **fields: Any) -> str:
    entry = CatalogueEntry(name="echo", summary=summary, **fields)
    return printed(print_catalogue, [entry], width=90)


OPTIONS = (
    OptionSpec(name="calls", kind="int", default=4, limits="at least 1", summary="Calls at once."),
    OptionSpec(name="batch", kind="bool", default=True, limits="", summary="All in one."),
)


def test_a_workload_comes_with_its_roles_and_options() -> None:
    roles = {"agent": 1, "peer": 4}
    text = catalogue("Sends it back.", roles=roles, options=OPTIONS)
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == "echo  Sends it back."
    assert lines[1] == "  ranks: 1 agent, 4 peer"
    assert "  calls   int    4         Calls at once; at least 1" in lines
    assert "  batch   bool   true      All in one" in lines
    assert "--workload path/to/file.py:Class" in lines[-2] + lines[-1]


def test_what_cannot_run_here_says_why() -> None:
    text = catalogue("Sends it.", roles={}, options=(), problems=("no gymnasium",))
    assert "cannot run here: no gymnasium" in text
    assert "ranks:" not in text
