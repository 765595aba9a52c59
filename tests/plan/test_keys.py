"""The keys of a plan are the flags of the search and the keywords of the public functions."""

import inspect
import re

import pytest
import typer

from tuner import search
from tuner.api import check, tune
from tuner.plan.keys import PLAN_KEYS, search_arguments
from tuner.plan.launching import Launching
from tuner.plan.measuring import Measuring

FLAGS = [flag for param in typer.main.get_command(search.app).params for flag in param.opts]
CHECKED = {name for name, key in PLAN_KEYS.items() if key.in_check}


def test_every_key_is_a_keyword_of_tune_and_a_flag() -> None:
    others = {"program", "beside", "plan", "resume", "overwrite", "observer", "show", "clock"}
    assert set(inspect.signature(tune).parameters) == PLAN_KEYS.keys() - {"programs"} | others
    flags = [key.flag for key in PLAN_KEYS.values()]
    assert [flag for flag in FLAGS if flag in flags] == flags


def test_every_key_that_a_check_takes_is_a_keyword_of_it_and_in_its_help() -> None:
    others = {"study", "observer", "show", "launcher", "clock"}
    assert set(inspect.signature(check).parameters) == CHECKED | others
    params = typer.main.get_command(search.app).params
    (help_text,) = [str(getattr(param, "help", "")) for param in params if param.name == "check"]
    own = {"--show-output", "--quiet", "--log", "--json"}
    flags = {PLAN_KEYS[name].flag for name in CHECKED}
    assert set(re.findall(r"--[a-z-]+", help_text)) == flags | own


@pytest.mark.parametrize("part", ["measuring", "launching"])
def test_every_key_of_a_part_is_a_field_of_what_it_makes(part: str) -> None:
    model = Measuring if part == "measuring" else Launching
    fields = {field.alias or name for name, field in model.model_fields.items()}
    keys = {name for name, key in PLAN_KEYS.items() if key.part == part}
    assert fields - {"second_objective_name", "until_clear"} == keys


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("workload", None, []),
        ("seed", 0, ["--seed", "0"]),
        ("min_time", 0.1, ["--min-time", "0.1s"]),
        ("budget", "auto:20m", ["--budget", "auto:20m"]),
        ("cold", False, []),
        ("cold", True, ["--cold"]),
        ("isolation", False, ["--no-isolation"]),
        ("isolation", True, []),
        ("require", ["a<=1", "b<=2"], ["--require", "a<=1", "--require", "b<=2"]),
        ("options", {"size": 4}, ["--set", "size=4"]),
        ("roles", [("a", "b.*")], ["--role", "a=b.*"]),
        ("programs", [["x"], ["y", "z 1"]], ["--beside", "y 'z 1'", "--", "x"]),
    ],
)
def test_a_key_is_written_as_words(name: str, value: object, words: list[str]) -> None:
    assert PLAN_KEYS[name].arguments(value) == words


def test_what_is_usual_is_left_out_and_a_program_comes_last() -> None:
    keys = {"programs": [["x"]], "epsilon": 0.03, "confidence": 0.9, "name": "s"}
    assert search_arguments(keys, {"epsilon": 0.03, "confidence": 0.95}) == [
        *("--confidence", "0.9", "--study", "s", "--", "x")
    ]
