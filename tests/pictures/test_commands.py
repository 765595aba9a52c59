"""Every command of the README is run by `make pictures`."""

import re
import sys

import pytest

from tests.pictures.commands import FILLED, OF_CI, ROOT, as_run, commands, shown
from tests.readme import README
from tuner.commands import SUMMARIES

TEXT = README.read_text()


def test_no_command_of_the_readme_is_missed() -> None:
    """Whatever looks like one, to the end of its line or of its code, is run."""
    known = {" ".join(each.replace("\\\n", "").split()) for each in commands(TEXT) + shown(TEXT)}
    names = "|".join((*SUMMARIES, "NAME"))
    goals = "|".join(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    begins = rf"python -m tuner\.\w+|rpc-tuner (?:{names})\b|make (?:{goals})\b|pip install"
    found = re.findall(rf"((?:{begins})[^`\n]*?) *(\\?)(?:    #.*)?(?=`|\n)", TEXT)
    assert len(found) > 50
    assert len(known) > 40
    for each, goes_on in found:
        begun = [one for one in known if one.startswith(each)]
        assert each in known or (goes_on and begun), each


@pytest.mark.parametrize("command", commands(TEXT))
def test_it_is_known_how_each_is_run(command: str) -> None:
    words = as_run(command)
    assert not {*words} & {*FILLED}
    assert not [word for word in words if word.isupper()]
    if words[0] == "make":
        goal = words[-1]
        assert re.search(rf"^{goal}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_shown_commands_are_not_run_twice() -> None:
    assert len(shown(TEXT)) == 4
    assert not {*shown(TEXT)} & {*commands(TEXT)}


@pytest.mark.parametrize("command", ["make coffee", "python -m json.tool", "curl example.org"])
def test_what_nobody_has_thought_of_is_an_error(command: str) -> None:
    with pytest.raises(ValueError, match="nobody has said how"):
        as_run(command)


def test_names_of_the_readme_are_filled_in() -> None:
    assert as_run("python -m tuner.show STUDY") == [sys.executable, "-m", "tuner.show", "udf-400"]
    assert as_run("rpc-tuner search")[-1] == "--help"
    assert as_run("python -m tuner.search -- python main.py")[-5:] == [
        "60s", "--overwrite", "--", "python", "main.py",
    ]  # fmt: skip
    assert [as_run(f"make {goal}")[1] for goal in OF_CI] == ["--dry-run"] * len(OF_CI)
