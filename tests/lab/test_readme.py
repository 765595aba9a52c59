"""Every command of the README is run by `make pictures`, and other pages show the same outputs."""

import re

import pytest

from lab.pictures.commands import FILLED, ROOT, as_run, commands, shown
from testing.readme import PROGRAM, README, shortened
from tuner.commands import SUMMARIES

TEXT = README.read_text()
PAGE = (ROOT / "docs" / "your-own-program.md").read_text()


def test_no_command_of_the_readme_is_missed() -> None:
    """Whatever looks like one, to the end of its line or of its code, is run."""
    known = {" ".join(each.replace("\\\n", "").split()) for each in commands(TEXT) + shown(TEXT)}
    names = "|".join((*SUMMARIES, "NAME"))
    goals = "|".join(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    begins = rf"python -m tuner\.\w+|rpc-tuner (?:{names})\b|make (?:{goals})\b|pip install"
    text = PROGRAM.sub("", TEXT)  # an output may name commands, too
    found = re.findall(rf"((?:{begins})[^`\n]*?) *(\\?)(?:    #.*)?(?=`|\n)", text)
    assert len(found) > 30
    assert len(known) > 30
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


def test_outputs_are_shown_as_make_pictures_shows_them() -> None:
    for _, module, output in PROGRAM.findall(TEXT):
        assert shortened(module, output) == output
        assert all(paragraph in PAGE for paragraph in output.split("\n\n"))
