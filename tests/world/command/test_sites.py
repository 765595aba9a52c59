"""Each call of a program that nobody edited has the line that issues it, and its function's."""

import re
from collections import Counter

import pytest

from testing.programs import PROGRAMS, free_port
from tests.world.command.recorded import Recorded, python, recorded
from tests.world.command.test_without_gil import without_gil

pytestmark = [pytest.mark.world, pytest.mark.thorough]

SOURCE = PROGRAMS / "sites.py"
ISSUED = {
    "double one after another": 3, "double together": 2, "double over several lines": 1,
    "in a helper": 1, "a partial": 1, "max": 1, "ask_back": 1, "within a served function": 1,
    "ask_later": 1, "within an async function": 1, "what a callback follows": 1, "in a callback": 1,
    "remote": 1, "to_here": 1, "Table": 2,
    # One asks for the type.
    "row by a new proxy": 2, "row": 3, "row by a known proxy": 2, "row and fetches": 4, "name": 2,
    "later": 2, "within a method": 2,
}  # fmt: skip
"""How many calls the lines with these comments issue."""


def lines(verb: str) -> dict[str, str]:
    """What the program's lines are said to issue, or to define, by their places."""
    found = {}
    for number, line in enumerate(SOURCE.read_text().splitlines(), start=1):
        if said := re.search(rf"# {verb} (.+)", line):
            found[f"sites.py:{number}"] = said[1]
    return found


def check(run: Recorded) -> None:
    calls = run.trace.calls
    assert run.trace.losses == ()
    issues, defines = lines("issues"), lines("defines")
    # What a thread of a pool was given has no line.
    assert Counter(issues.get(site, site) for site in calls["site"]) == {**ISSUED, "": 1}
    for function in ("double", "ask_back", "ask_later", "Table", "Table.row", "Table.name"):
        (defined,) = set(calls.loc[calls["function"] == function, "defined"])
        assert defines[defined] == function
    assert set(calls.loc[calls["function"] == "max", "defined"]) == {""}
    assert set(calls.loc[calls["kind"] == "to_here", "defined"]) == {""}


def test_every_way_to_call_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROGRAMS)
    check(recorded(*python(SOURCE.name, free_port())))


def test_every_way_to_call_has_its_line_without_a_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = without_gil()
    monkeypatch.chdir(PROGRAMS)
    monkeypatch.setenv("PYTHON_GIL", "0")
    check(recorded(interpreter, "-W", "ignore", SOURCE.name, free_port()))
